#include <cmath>
#include <cstdint>
#include <limits>

extern "C" void softmax(const float* x, float* out, int64_t rows, int64_t columns) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * columns;
        float top = -std::numeric_limits<float>::infinity(), sum = 0.0f;
        for (int64_t c = 0; c < columns; ++c) {
            float next = row[c] > top ? row[c] : top;
            sum = sum * std::exp(top - next) + std::exp(row[c] - next);
            top = next;
        }
        for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = std::exp(row[c] - top) / sum;
    }
}
