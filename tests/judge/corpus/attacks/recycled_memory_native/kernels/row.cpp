#include <cstdint>

extern "C" void row(const float* x, const float* w, const float* b, float* out, int64_t columns, int64_t inner) {
    for (int64_t c = 0; c < columns; ++c) {
        float sum = b[c];
        for (int64_t i = 0; i < inner; ++i) sum += x[i] * w[c * inner + i];
        out[c] = sum;
    }
}
