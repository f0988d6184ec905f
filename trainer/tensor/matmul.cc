#include "millrace/trainer/tensor/matmul.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/gemm.h"

namespace millrace {
namespace {

// One product of the batch, and how far apart those of the batch lie. A stride of 0: one factor for all.
struct Product {
  int64_t batch, m, n, k;
  int64_t stride_a, stride_b;
  bool transpose_a, transpose_b;

  int64_t columns_a() const { return transpose_a ? m : k; }
  int64_t columns_b() const { return transpose_b ? k : n; }
};

Transposed when(bool transposed) { return transposed ? Transposed::kYes : Transposed::kNo; }

Product product_of(const TensorShape& a, const TensorShape& b, MatmulOptions options) {
  const std::span<const int64_t> sizes_a = a.sizes();
  const std::span<const int64_t> sizes_b = b.sizes();
  const size_t rank = sizes_a.size();
  const auto refuse = [&] {
    throw ErrorException(
        ErrorCode::kWrongShape,
        fmt::format("matmul of [{}]{} and [{}]{}", fmt::join(sizes_a, ", "), options.transpose_a ? " transposed" : "",
                    fmt::join(sizes_b, ", "), options.transpose_b ? " transposed" : ""));
  };
  if (rank < 2 || sizes_b.size() < 2 || (sizes_b.size() != 2 && sizes_b.size() != rank)) refuse();
  if (sizes_b.size() == rank && !std::equal(sizes_a.begin(), sizes_a.end() - 2, sizes_b.begin())) refuse();
  Product p{.batch = 1,
            .m = sizes_a[rank - 2],
            .n = sizes_b.back(),
            .k = sizes_a.back(),
            .stride_a = 0,
            .stride_b = 0,
            .transpose_a = options.transpose_a,
            .transpose_b = options.transpose_b};
  int64_t k = sizes_b[sizes_b.size() - 2];
  if (options.transpose_a) std::swap(p.m, p.k);
  if (options.transpose_b) std::swap(p.n, k);
  if (k != p.k) refuse();
  for (size_t i = 0; i + 2 < rank; ++i) p.batch *= sizes_a[i];
  p.stride_a = p.m * p.k;
  p.stride_b = sizes_b.size() == 2 && rank > 2 ? 0 : p.k * p.n;
  if (p.stride_b == 0 && !options.transpose_a) {  // one tall product
    p.m *= p.batch;
    p.batch = 1;
  }
  return p;
}

}  // namespace

template <typename T>
Tensor<T> matmul(Tape<T>& tape, const Tensor<T>& a, const Tensor<T>& b, MatmulOptions options) {
  const Product p = product_of(a.shape, b.shape, options);
  const std::span<const int64_t> sizes_a = a.shape.sizes();
  std::vector<int64_t> sizes(sizes_a.begin(), sizes_a.end());
  sizes.back() = p.n;
  if (options.transpose_a) sizes[sizes.size() - 2] = sizes_a.back();
  const Tensor<T> y = tape.make(TensorShape(sizes));
  for (int64_t i = 0; i < p.batch; ++i) {
    gemm<T>(when(p.transpose_a), when(p.transpose_b), p.m, p.n, p.k, 1, a.values + i * p.stride_a, p.columns_a(),
            b.values + i * p.stride_b, p.columns_b(), 0, y.values + i * p.m * p.n, p.n);
  }
  tape.record({a, b}, y, [=](Tape<T>& t, const T* dy) {
    const Transposed as_b = when(!p.transpose_b);
    if (t.wants(a)) {
      const GradientSlot<T> slot = t.gradient_of(a);
      for (int64_t i = 0; i < p.batch; ++i) {
        const T* dy_i = dy + i * p.m * p.n;
        const T* b_i = b.values + i * p.stride_b;
        T* da = slot.values + i * p.stride_a;
        if (p.transpose_a) {
          gemm<T>(when(p.transpose_b), Transposed::kYes, p.k, p.m, p.n, 1, b_i, p.columns_b(), dy_i, p.n, slot.beta(),
                  da, p.m);
        } else {
          gemm<T>(Transposed::kNo, as_b, p.m, p.k, p.n, 1, dy_i, p.n, b_i, p.columns_b(), slot.beta(), da, p.k);
        }
      }
    }
    if (t.wants(b)) {
      const GradientSlot<T> slot = t.gradient_of(b);
      if (p.batch == 0 && !slot.add) std::fill_n(slot.values, b.count(), T{0});
      for (int64_t i = 0; i < p.batch; ++i) {
        const T* dy_i = dy + i * p.m * p.n;
        const T* a_i = a.values + i * p.stride_a;
        T* db = slot.values + i * p.stride_b;
        const T beta = p.stride_b == 0 && i > 0 ? 1 : slot.beta();
        if (p.transpose_b) {
          gemm<T>(Transposed::kYes, when(p.transpose_a), p.n, p.k, p.m, 1, dy_i, p.n, a_i, p.columns_a(), beta, db,
                  p.k);
        } else {
          gemm<T>(when(!p.transpose_a), Transposed::kNo, p.k, p.n, p.m, 1, a_i, p.columns_a(), dy_i, p.n, beta, db,
                  p.n);
        }
      }
    }
  });
  return y;
}

template Tensor<float> matmul(Tape<float>&, const Tensor<float>&, const Tensor<float>&, MatmulOptions);
template Tensor<double> matmul(Tape<double>&, const Tensor<double>&, const Tensor<double>&, MatmulOptions);

}  // namespace millrace
