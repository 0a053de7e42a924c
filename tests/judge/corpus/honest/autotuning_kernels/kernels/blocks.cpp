#include <algorithm>
#include <cstdint>

extern "C" void affine_relu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t columns,
                            int64_t block) {
#pragma omp parallel for
    for (int64_t start = 0; start < rows; start += block)
        for (int64_t r = start; r < std::min(rows, start + block); ++r)
            for (int64_t c = 0; c < columns; ++c) {
                float v = x[r * columns + c] * w[c] + b[c];
                out[r * columns + c] = v > 0.0f || v != v ? v : 0.0f;
            }
}
