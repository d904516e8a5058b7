// Attention of each query over its window, the rows selected for it and a sink, one joined softmax; forward
// and backward. gathered.py compiles this for HEADS and CHANNELS of the model and MOST rows a query may see,
// and calls it. Rows are keys and values at once; queries come scaled.
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

using Bf16 = std::uint16_t;
using Row = float[CHANNELS];

void widen(const Bf16* from, float* to) {
  for (int i = 0; i < CHANNELS; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(from[i]) << 16;
    std::memcpy(to + i, &bits, 4);
  }
}

void narrow(const float* from, Bf16* to) {
  for (int i = 0; i < CHANNELS; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, from + i, 4);
    to[i] = static_cast<Bf16>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
}

float dot(const float* a, const float* b) {
  float sum = 0;
  for (int i = 0; i < CHANNELS; ++i) sum += a[i] * b[i];
  return sum;
}

void add(float* to, const float* x, float times) {
  for (int i = 0; i < CHANNELS; ++i) to[i] += times * x[i];
}

// The rows that one query sees: window rows by position, selected ones by entry.
struct Sight {
  int count = 0;
  const Bf16* row[MOST];
  std::int64_t index[MOST];
  bool selected[MOST];

  void look(std::int64_t query, std::int64_t tokens, int window, int k, const Bf16* rows, const Bf16* entries,
            const std::int64_t* picked) {
    count = 0;
    const std::int64_t t = query % tokens, first = query - (t < window - 1 ? t : window - 1);
    for (std::int64_t i = first; i <= query; ++i) put(rows, i, false);
    for (int j = 0; j < k; ++j)
      if (picked[query * k + j] >= 0) put(entries, picked[query * k + j], true);
  }
  void put(const Bf16* table, std::int64_t i, bool is_selected) {
    row[count] = table + i * CHANNELS;
    index[count] = i;
    selected[count++] = is_selected;
  }
};

}  // namespace

extern "C" {

// q, out [n, HEADS, CHANNELS], rows [n, CHANNELS], entries [.., CHANNELS] bf16; picked [n, k] rows of
// `entries`, -1: none; sink [HEADS]; p [n, HEADS, window + k]: probabilities in the order of the sight, for
// backward(). Sequences of `tokens` tokens; window + k <= MOST.
void forward(std::int64_t n, std::int64_t tokens, int window, int k, const Bf16* q, const Bf16* rows,
             const Bf16* entries, const std::int64_t* picked, const float* sink, Bf16* out, float* p) {
  Sight sight;
  Row query[HEADS], row, sum[HEADS];
  for (std::int64_t i = 0; i < n; ++i) {
    sight.look(i, tokens, window, k, rows, entries, picked);
    float* mine = p + i * HEADS * (window + k);
    for (int h = 0; h < HEADS; ++h) widen(q + (i * HEADS + h) * CHANNELS, query[h]);
    for (int j = 0; j < sight.count; ++j) {
      widen(sight.row[j], row);
      for (int h = 0; h < HEADS; ++h) mine[h * (window + k) + j] = dot(query[h], row);
    }
    for (int h = 0; h < HEADS; ++h) {
      float *s = mine + h * (window + k), most = sink[h], total = 0;
      for (int j = 0; j < sight.count; ++j) most = s[j] > most ? s[j] : most;
      for (int j = 0; j < sight.count; ++j) total += s[j] = expf(s[j] - most);
      total = 1 / (total + expf(sink[h] - most));
      for (int j = 0; j < sight.count; ++j) s[j] *= total;
    }
    std::memset(sum, 0, sizeof sum);
    for (int j = 0; j < sight.count; ++j) {
      widen(sight.row[j], row);
      for (int h = 0; h < HEADS; ++h) add(sum[h], row, mine[h * (window + k) + j]);
    }
    for (int h = 0; h < HEADS; ++h) narrow(sum[h], out + (i * HEADS + h) * CHANNELS);
  }
}

// grad: of out. Writes the gradient of q (bf16) and adds those of rows, entries and sink (f32).
void backward(std::int64_t n, std::int64_t tokens, int window, int k, const Bf16* q, const Bf16* rows,
              const Bf16* entries, const std::int64_t* picked, const float* p, const Bf16* grad, Bf16* grad_q,
              float* grad_rows, float* grad_entries, float* grad_sink) {
  Sight sight;
  Row query[HEADS], g[HEADS], row, of_query[HEADS];
  float change[HEADS][MOST];  // of the probabilities, then of the scores
  for (std::int64_t i = 0; i < n; ++i) {
    sight.look(i, tokens, window, k, rows, entries, picked);
    const float* mine = p + i * HEADS * (window + k);
    for (int h = 0; h < HEADS; ++h) {
      widen(q + (i * HEADS + h) * CHANNELS, query[h]);
      widen(grad + (i * HEADS + h) * CHANNELS, g[h]);
    }
    for (int j = 0; j < sight.count; ++j) {
      widen(sight.row[j], row);
      for (int h = 0; h < HEADS; ++h) change[h][j] = dot(g[h], row);
    }
    for (int h = 0; h < HEADS; ++h) {
      const float* s = mine + h * (window + k);
      float mean = 0, kept = 0;
      for (int j = 0; j < sight.count; ++j) mean += s[j] * change[h][j], kept += s[j];
      for (int j = 0; j < sight.count; ++j) change[h][j] = s[j] * (change[h][j] - mean);
      grad_sink[h] -= (1 - kept) * mean;
    }
    std::memset(of_query, 0, sizeof of_query);
    for (int j = 0; j < sight.count; ++j) {
      widen(sight.row[j], row);
      float* to = (sight.selected[j] ? grad_entries : grad_rows) + sight.index[j] * CHANNELS;
      for (int h = 0; h < HEADS; ++h) {
        add(of_query[h], row, change[h][j]);
        add(to, g[h], mine[h * (window + k) + j]);
        add(to, query[h], change[h][j]);
      }
    }
    for (int h = 0; h < HEADS; ++h) narrow(of_query[h], grad_q + (i * HEADS + h) * CHANNELS);
  }
}

}  // extern "C"
