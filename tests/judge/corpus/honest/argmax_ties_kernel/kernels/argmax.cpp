#include <cstdint>

extern "C" void argmax(const float* x, int64_t* out, int64_t rows, int64_t columns) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * columns;
        int64_t best = 0;
        for (int64_t c = 1; c < columns; ++c)
            if (row[c] > row[best] || (row[c] != row[c] && row[best] == row[best])) best = c;
        out[r] = best;
    }
}
