#include <cstdint>

extern "C" void powers(const float* x, float* out, int64_t n, int degree, float alpha) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        float total = 0.0f, power = 1.0f;
        for (int d = 1; d <= degree; ++d) {
            power *= x[i];
            total += alpha / static_cast<float>(d) * power;
        }
        out[i] = total;
    }
}
