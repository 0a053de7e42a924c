#pragma once
#include <cstdint>

inline void linear_rows(const float* x, const float* w, const float* b, float* out, int64_t begin, int64_t end,
                        int64_t columns, int64_t inner) {
    for (int64_t r = begin; r < end; ++r) {
        for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = b[c];
        for (int64_t i = 0; i < inner; ++i)
            for (int64_t c = 0; c < columns; ++c) out[r * columns + c] += x[r * inner + i] * w[i * columns + c];
    }
}
