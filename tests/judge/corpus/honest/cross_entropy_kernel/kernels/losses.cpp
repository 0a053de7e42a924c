#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" void losses(const float* x, const int64_t* label, float* out, int64_t rows, int64_t columns) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * columns;
        float top = *std::max_element(row, row + columns);
        double sum = 0.0;
        for (int64_t c = 0; c < columns; ++c) sum += std::exp(row[c] - top);
        out[r] = static_cast<float>(std::log(sum)) + top - row[label[r]];
    }
}
