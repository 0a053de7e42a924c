#include <cstdint>

extern "C" void linear(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t columns,
                       int64_t inner) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = b[c];
        for (int64_t i = 0; i < inner; ++i)
            for (int64_t c = 0; c < columns; ++c) out[r * columns + c] += x[r * inner + i] * w[i * columns + c];
    }
}
