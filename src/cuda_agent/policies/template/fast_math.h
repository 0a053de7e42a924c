// Elementary functions as straight-line C++ that a compiler turns into vector code for any CPU: no table, no branch,
// no library call. Relative error is at most about 2 ulp where the result is normal; infinities and NaN come out as
// from the C library. Polynomials and rationals were fitted for these files (weighted least squares, Lawson's method).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace fast {

constexpr float INF = std::numeric_limits<float>::infinity();

static inline int32_t bits(float x) { int32_t i; std::memcpy(&i, &x, 4); return i; }
static inline float from_bits(int32_t i) { float x; std::memcpy(&x, &i, 4); return x; }
static inline float copy_sign(float magnitude, float sign) {
    return from_bits((bits(magnitude) & 0x7fffffff) | (bits(sign) & int32_t(0x80000000)));
}
static inline float absolute(float x) { return from_bits(bits(x) & 0x7fffffff); }

// e^r - 1 for |r| <= ln(2)/2
static inline float expm1_reduced(float r) {
    float q = 1.9875691500e-4f;
    q = q * r + 1.3981999507e-3f;
    q = q * r + 8.3334519073e-3f;
    q = q * r + 4.1665795894e-2f;
    q = q * r + 1.6666665459e-1f;
    q = q * r + 5.0000001201e-1f;
    return q * (r * r) + r;
}

// x = n ln(2) + r, with |r| <= ln(2)/2; adding 1.5 * 2^23 rounds to the nearest integer
static inline int32_t reduce(float x, float &r) {
    float shifted = x * 1.44269504088896341f + 12582912.0f;
    float n = shifted - 12582912.0f;
    r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    return bits(shifted) - 0x4b400000;
}

// 2^n for -126 <= n <= 127
static inline float power_of_two(int32_t n) { return from_bits((n + 127) << 23); }

static inline float exp(float x) {
    float c = x < -105.0f ? -105.0f : x;
    c = c > 89.0f ? 89.0f : c;
    float r;
    int32_t n = reduce(c, r), half = n >> 1;
    return (1.0f + expm1_reduced(r)) * power_of_two(half) * power_of_two(n - half);
}

// e^x without results below 2^-126 (they become about 2^-126): for sums in which such terms do not count
static inline float exp_normal(float x) {
    float c = x < -87.0f ? -87.0f : x;
    c = c > 88.0f ? 88.0f : c;
    float r;
    int32_t n = reduce(c, r);
    return (1.0f + expm1_reduced(r)) * power_of_two(n);
}

static inline float expm1(float x) {
    float c = x < -20.0f ? -20.0f : x;
    c = c > 89.0f ? 89.0f : c;
    float r;
    int32_t n = reduce(c, r), half = n >> 1;
    float a = power_of_two(half), b = power_of_two(n - half);
    float scale = a * b;
    float small = scale * expm1_reduced(r) + (scale - 1.0f);
    float large = (1.0f + expm1_reduced(r)) * a * b - 1.0f;
    return n < 64 ? small : large;
}

// log of a positive, normal, finite number
static inline float log_normal(float x, int32_t shift = 0) {
    int32_t i = bits(x) - 0x3f3504f3;  // m below lies in [sqrt(1/2), sqrt(2))
    float e = float((i >> 23) + shift);
    float m = from_bits((i & 0x007fffff) + 0x3f3504f3) - 1.0f;
    float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    return p * m * z + e * -2.12194440e-4f - 0.5f * z + m + e * 0.693359375f;
}

static inline float log(float x) {
    float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x;
    float y = log_normal(scaled, x < 1.17549435e-38f ? -23 : 0);
    y = x == 0.0f ? -INF : y;
    y = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : y;
    y = x == INF ? INF : y;
    return x != x ? x : y;
}

static inline float log1p(float x) {
    float u = 1.0f + x;
    float correction = (x - (u - 1.0f)) / u;
    float y = log(u);
    float exact = y + correction;
    y = absolute(x) < 1e38f && u > 0.0f ? exact : y;
    return absolute(x) < 1e-7f ? x : y;
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

static inline float tanh(float x) {
    float a = absolute(x);
    float c = a > 9.1f ? 9.1f : x;
    float z = c * c;
    float p = -1.20131585e-11f;
    p = p * z + 3.03279023e-8f;
    p = p * z + 2.79004591e-5f;
    p = p * z + 3.86302475e-3f;
    p = p * z + 1.36756835e-1f;
    p = p * z + 9.99999999e-1f;
    float q = 1.27989234e-6f;
    q = q * z + 3.92928095e-4f;
    q = q * z + 2.72264321e-2f;
    q = q * z + 4.70090154e-1f;
    q = q * z + 1.0f;
    float y = c * p / q;
    return a > 9.02f ? copy_sign(1.0f, x) : y;
}

static inline float erf(float x) {
    float a = absolute(x);
    float c = a > 3.95f ? 3.95f : x;
    float z = c * c;
    float p = -1.28958774e-8f;
    p = p * z + 4.62710322e-6f;
    p = p * z + 3.77434198e-4f;
    p = p * z + 3.84141262e-3f;
    p = p * z + 5.42618424e-2f;
    p = p * z + 1.85156504e-1f;
    p = p * z + 1.12837917f;
    float q = 6.25670565e-5f;
    q = q * z + 1.30299285e-3f;
    q = q * z + 1.54380249e-2f;
    q = q * z + 1.13895845e-1f;
    q = q * z + 4.97424087e-1f;
    q = q * z + 1.0f;
    float y = c * p / q;
    return a > 3.92f ? copy_sign(1.0f, x) : y;
}

// softplus(x) = log(1 + e^x), stable for every x
static inline float softplus(float x) {
    float t = exp(-absolute(x));
    float u = 1.0f + t;
    return (x > 0.0f ? x : 0.0f) + (log_normal(u) + (t - (u - 1.0f)) / u);
}

// x tanh(softplus(x)): with n = e^x it is x (n^2 + 2n) / (n^2 + 2n + 2)
static inline float mish(float x) {
    float n = exp(x > 20.0f ? 20.0f : x);
    float m = n * (n + 2.0f);
    float y = x * (m / (m + 2.0f));
    return x > 20.0f ? x : y;
}

static inline float gelu(float x) { return 0.5f * x * (1.0f + erf(x * 0.70710678118654752f)); }
static inline float gelu_tanh(float x) {
    float inner = 0.79788456080286536f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.0f + tanh(inner));
}
static inline float silu(float x) { return x / (1.0f + exp(-x)); }
static inline float elu(float x, float alpha, float scale, float input_scale) {
    float y = scale * alpha * expm1(x * input_scale);
    return x <= 0.0f ? y : (x != x ? x : scale * x);
}

static inline float hard_sigmoid(float x) {
    float y = x + 3.0f;
    y = y < 0.0f ? 0.0f : y;
    y = y > 6.0f ? 6.0f : y;
    return y * (1.0f / 6.0f);
}
static inline float hard_swish(float x) { return x * hard_sigmoid(x); }

}  // namespace fast

template <typename T> static inline T floor_divide(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        if (b == 0) return a / b;
        T rest = std::fmod(a, b), q = (a - rest) / b;
        if ((rest != 0) & ((b < 0) != (rest < 0))) q -= 1;
        if (q == 0) return std::copysign(T(0), a / b);
        T whole = std::floor(q);
        return q - whole > T(0.5) ? whole + 1 : whole;
    } else {
        T q = a / b;
        return q - T((a % b != 0) & ((a < 0) != (b < 0)));
    }
}
template <typename T> static inline T remainder_of(T a, T b) {
    T r = std::fmod(a, b);
    return (r != 0) & ((r < 0) != (b < 0)) ? r + b : r;
}
static inline int64_t ceil_divide(int64_t a, int64_t b) { return -floor_divide<int64_t>(-a, b); }

// Copies a block to memory past the caches, where the CPU can: what is written and not read again soon should neither
// be fetched first nor push out what is still needed.
#if defined(__AVX__)
#include <immintrin.h>
template <typename T> static inline void stream(T *to, const T *from, int64_t count) {
    char *out = reinterpret_cast<char *>(to);
    const char *in = reinterpret_cast<const char *>(from);
    int64_t size = count * int64_t(sizeof(T)), i = std::min<int64_t>(size, int64_t(-reinterpret_cast<uintptr_t>(out) & 31));
    std::memcpy(out, in, size_t(i));
    for (; i + 32 <= size; i += 32)
        _mm256_stream_si256(reinterpret_cast<__m256i *>(out + i),
                            _mm256_loadu_si256(reinterpret_cast<const __m256i *>(in + i)));
    std::memcpy(out + i, in + i, size_t(size - i));
}
static inline void stream_end() { _mm_sfence(); }
#else
template <typename T> static inline void stream(T *to, const T *from, int64_t count) {
    std::memcpy(to, from, size_t(count) * sizeof(T));
}
static inline void stream_end() {}
#endif
