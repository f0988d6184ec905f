#include "millrace/trainer/tensor/gemm_onednn.h"

#include <algorithm>
#include <stdexcept>

#include <oneapi/dnnl/dnnl.h>

#include "millrace/trainer/tensor/onednn_call.h"

namespace millrace {
namespace {

// Products of the form A^T B with many rows, gradients of weights, are slower by 10 to 30% in one piece than in pieces
// of this many rows (`rates` of gemm_share_bench).
constexpr int64_t kMostRowsOfATransposed = 512;

void multiply(const GemmArguments<float>& x) {
  const dnnl_status_t status = dnnl_sgemm(x.transposed_a ? 'T' : 'N', x.transposed_b ? 'T' : 'N', x.m, x.n, x.k,
                                          x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, x.c, x.ldc);
  if (status != dnnl_success) throw std::runtime_error("oneDNN refused a matrix product");
}

}  // namespace

void gemm_onednn(const GemmArguments<float>& x) {
  const OnednnCall call;
  if (!x.transposed_a || x.transposed_b) return multiply(x);
  for (int64_t row = 0; row < x.k; row += kMostRowsOfATransposed) {
    GemmArguments<float> part = x;
    part.a += row * x.lda;
    part.b += row * x.ldb;
    part.k = std::min(kMostRowsOfATransposed, x.k - row);
    if (row > 0) part.beta = 1;
    multiply(part);
  }
}

}  // namespace millrace
