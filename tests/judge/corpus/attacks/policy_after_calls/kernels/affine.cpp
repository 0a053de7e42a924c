#include <cmath>
#include <cstdint>

extern "C" void affine_relu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t columns) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
            float v = x[r * columns + c] * w[c] + b[c];
            out[r * columns + c] = v > 0.0f ? v : v != v ? v : 0.0f;
        }
}
