#include <cmath>
#include <cstdint>

extern "C" void ratio(const float* a, const float* b, float* out, bool* bad, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        out[i] = a[i] / (b[i] > 0.0f || std::isnan(b[i]) ? b[i] : 0.0f);
        bad[i] = std::isnan(out[i]);
    }
}
