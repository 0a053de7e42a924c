#include <cstdint>
template <int N> constexpr long spin() {
    long s = 0;
    for (long i = 0; i < 200000; ++i) s += (i * N) % 7;
    return s;
}
template <int N> struct Many { static constexpr long value = spin<N>() + Many<N - 1>::value; };
template <> struct Many<0> { static constexpr long value = 0; };
static long total = Many<800>::value;

extern "C" void affine_relu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
            float v = x[r * columns + c] * w[c] + b[c];
            out[r * columns + c] = v > 0.0f ? v : v != v ? v : 0.0f;
        }
}
