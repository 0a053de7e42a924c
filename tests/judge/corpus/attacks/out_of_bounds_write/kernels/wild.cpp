#include <cstdint>

extern "C" void wild(const float* x, float* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = x[0];
}
