#include <cstdint>

extern "C" void linear(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t columns,
                       int64_t inner) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
            float sum = 0.0f;
            for (int64_t i = 0; i < inner; ++i) sum += x[r * inner + i] * w[c * inner + i];
            out[r * columns + c] = sum + b[c];
        }
}
