// What the parent does to large buffers: make new contents, copy them past the caches, compare, and probe the cores.
// Plain C interface for ctypes; see native.py.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>
#ifdef __AVX__
#include <immintrin.h>
#endif

namespace {

uint64_t mix64(uint64_t x) {  // splitmix64's output function
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

}  // namespace

extern "C" {

// Copies n bytes so that the target is not left in any cache (plain copy where the CPU has no such stores).
void copy_cold(char* to, const char* from, int64_t n) {
#ifdef __AVX__
  int64_t i = 0;
  while (i < n && (reinterpret_cast<uintptr_t>(to + i) & 31)) { to[i] = from[i]; ++i; }
  for (; i + 32 <= n; i += 32)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
  for (; i < n; ++i) to[i] = from[i];
  _mm_sfence();
#else
  memcpy(to, from, n);
#endif
}

// New content for one call: runs of 16 to 79 elements, each taken from one of two others at its own secret rotation.
// All of it is some element of them, so that the distribution stays.
void blend(char* out, const char* a, const char* b, int64_t count, int64_t size, uint64_t seed) {
  if (count <= 0) return;
  int64_t at = 0;
  for (uint64_t i = 0; at < count; ++i) {
    uint64_t r = mix64(seed ^ (i * 0x2545f4914f6cdd1dull));
    int64_t run = 16 + (r & 63);
    if (run > count - at) run = count - at;
    const char* from = (r >> 6) & 1 ? a : b;
    int64_t start = static_cast<int64_t>(mix64(r) % static_cast<uint64_t>(count - run + 1));
    memcpy(out + at * size, from + start * size, run * size);
    at += run;
  }
}

// Elements of `got` outside `want` ± `bound`. Where `want` is not finite, or `bound` is NaN, the class must be the same
// (NaN, +inf, -inf); an infinite bound allows anything. Returns how many; fills the first, the worst and its excess.
int64_t compare(const double* want, const double* bound, const double* got, int64_t n, int64_t* first, int64_t* worst,
                double* excess) {
  int64_t bad = 0;
  *first = *worst = -1;
  *excess = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isinf(bound[i])) continue;
    double over;
    if (!std::isfinite(want[i])) {
      bool same = std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i];
      over = same ? 0 : INFINITY;
    } else {
      double error = std::fabs(got[i] - want[i]);
      over = error <= bound[i] ? 0 : (bound[i] > 0 ? error / bound[i] : INFINITY);
      if (!std::isfinite(got[i])) over = INFINITY;
    }
    if (over > 0) {
      if (!bad) *first = i;
      if (*worst < 0 || over > *excess) { *worst = i; *excess = over; }
      ++bad;
    }
  }
  return bad;
}

// Elements of `got` further from `want` than `share` of the element's size plus the root mean square of the finite ones;
// where `want` is not finite, those of another class.
int64_t outside(const double* want, const double* got, int64_t n, double share) {
  double squares = 0;
  int64_t finite = 0, bad = 0;
  for (int64_t i = 0; i < n; ++i)
    if (std::isfinite(want[i])) { squares += want[i] * want[i]; ++finite; }
  double add = finite ? std::sqrt(squares / finite) : 0;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isfinite(want[i])) bad += !(std::fabs(got[i] - want[i]) <= share * (std::fabs(want[i]) + add) + 1e-30);
    else bad += std::isnan(want[i]) ? !std::isnan(got[i]) : got[i] != want[i];
  }
  return bad;
}

// Whether n bytes are the same.
int32_t same(const char* a, const char* b, int64_t n) { return memcmp(a, b, n) == 0; }

// Seconds that a fixed loop of `rounds` takes, run on `threads` threads at once: the slowest of them.
double probe(int64_t rounds, int32_t threads) {
  std::vector<double> seconds(threads);
  auto work = [&](int k) {
    double start = now();
    uint64_t x = k + 1;
    for (int64_t i = 0; i < rounds; ++i) x = x * 6364136223846793005ull + 1442695040888963407ull;
    volatile uint64_t sink = x;
    (void)sink;
    seconds[k] = now() - start;
  };
  std::vector<std::thread> others;
  for (int k = 1; k < threads; ++k) others.emplace_back(work, k);
  work(0);
  for (auto& t : others) t.join();
  double slowest = 0;
  for (double s : seconds) slowest = s > slowest ? s : slowest;
  return slowest;
}
}

// Seconds that `threads` threads need to read n bytes together, best of several, less what starting them costs.
extern "C" double read_seconds(const char* data, int64_t n, int32_t threads) {
  auto once = [&](int64_t bytes) {
    std::vector<uint64_t> sums(threads * 8);
    int64_t share = bytes / threads / 64 * 64;
    auto work = [&](int k) {
      const uint64_t* p = reinterpret_cast<const uint64_t*>(data + k * share);
      uint64_t a = 0, b = 0, c = 0, d = 0;
      for (int64_t i = 0; i + 4 <= share / 8; i += 4) { a += p[i]; b += p[i + 1]; c += p[i + 2]; d += p[i + 3]; }
      sums[k * 8] = a + b + c + d;
    };
    double start = now();
    std::vector<std::thread> others;
    for (int k = 1; k < threads; ++k) others.emplace_back(work, k);
    work(0);
    for (auto& t : others) t.join();
    volatile uint64_t sink = sums[0];
    (void)sink;
    return now() - start;
  };
  double best = 1e9, idle = 1e9;
  for (int i = 0; i < 7; ++i) {
    double full = once(n), empty = once(0);
    best = full < best ? full : best;
    idle = empty < idle ? empty : idle;
  }
  return best > idle ? best - idle : 0;
}
