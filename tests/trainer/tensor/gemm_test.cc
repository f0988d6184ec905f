#include "millrace/trainer/tensor/gemm.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <pthread.h>

#include "millrace/trainer/tensor/gemm_eigen.h"

namespace millrace::gemm_test {
namespace {

// Small integers: every order of additions gives the same sum, so results are compared exactly.
template <typename T>
std::vector<T> integers(int64_t count, uint64_t seed) {
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<T>(static_cast<int>(seed >> 60) - 8);
  }
  return values;
}

template <typename T>
struct Product {
  bool transposed_a, transposed_b;
  int64_t m, n, k;
  T alpha, beta;
  int64_t spare = 3;  // columns of each matrix in memory that do not belong to it
  int64_t lda = (transposed_a ? m : k) + spare;
  int64_t ldb = (transposed_b ? k : n) + spare;
  int64_t ldc = n + spare;
  std::vector<T> a = integers<T>((transposed_a ? k : m) * lda, 1);
  std::vector<T> b = integers<T>((transposed_b ? n : k) * ldb, 2);
  std::vector<T> c = integers<T>(m * ldc, 3);

  std::vector<T> expected() const {
    std::vector<T> result = c;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        T sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += a[static_cast<size_t>(transposed_a ? p * lda + i : i * lda + p)] *
                 b[static_cast<size_t>(transposed_b ? j * ldb + p : p * ldb + j)];
        }
        T& value = result[static_cast<size_t>(i * ldc + j)];
        value = alpha * sum + (beta == 0 ? 0 : beta * value);
      }
    }
    return result;
  }
  GemmArguments<T> arguments(std::vector<T>& into) const {
    return {transposed_a, transposed_b, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, into.data(), ldc};
  }
};

template <typename T, typename Multiply>
void expect_all_products(const Multiply& multiply) {
  const std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes = {{1, 1, 1},    {5, 7, 3},      {16, 16, 16},
                                                                    {33, 65, 17}, {128, 128, 64}, {1, 300, 40}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const auto& [alpha, beta] : {std::pair<T, T>{1, 0}, {1, 1}, {T{0.5}, 2}}) {
          Product<T> product{ta, tb, m, n, k, alpha, beta};
          if (beta == 0) product.c[0] = std::nan("");  // what was there does not matter
          std::vector<T> c = product.c;
          multiply(product, c);
          ASSERT_EQ(c, product.expected()) << m << "x" << n << "x" << k << (ta ? " A^T" : "") << (tb ? " B^T" : "")
                                           << " alpha " << alpha << " beta " << beta;
        }
      }
    }
  }
}

template <typename T>
void multiply_with_gemm(const Product<T>& p, std::vector<T>& c) {
  gemm<T>(p.transposed_a ? Transposed::kYes : Transposed::kNo, p.transposed_b ? Transposed::kYes : Transposed::kNo, p.m,
          p.n, p.k, p.alpha, p.a.data(), p.lda, p.b.data(), p.ldb, p.beta, c.data(), p.ldc);
}

TEST(Gemm, MultipliesFloatsInEveryForm) { expect_all_products<float>(multiply_with_gemm<float>); }
TEST(Gemm, MultipliesDoublesInEveryForm) { expect_all_products<double>(multiply_with_gemm<double>); }

TEST(Gemm, EigenMultipliesInEveryFormForEachInstructionSetOfThisProcessor) {
  const auto by = [](void (*multiply)(const GemmArguments<float>&)) {
    return [multiply](const Product<float>& product, std::vector<float>& c) { multiply(product.arguments(c)); };
  };
  expect_all_products<float>(by(gemm_eigen));
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) expect_all_products<float>(by(gemm_eigen_avx2));
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    expect_all_products<float>(by(gemm_eigen_avx512));
  }
#endif
}

TEST(Gemm, WithoutInnerSizeItScalesOrClears) {
  std::vector<float> c = {1, 2, 3, NAN};
  gemm<float>(Transposed::kNo, Transposed::kNo, 1, 3, 0, 1, nullptr, 1, nullptr, 1, 2, c.data(), 3);
  EXPECT_THAT(std::vector<float>(c.begin(), c.begin() + 3), testing::ElementsAre(2, 4, 6));
  gemm<float>(Transposed::kNo, Transposed::kNo, 2, 2, 0, 1, nullptr, 1, nullptr, 1, 0, c.data(), 2);
  EXPECT_THAT(c, testing::Each(0));
}

// Where the stack of the thread that multiplies lies, and what its signal handler found.
std::atomic<uintptr_t> stack_begin;
std::atomic<uintptr_t> stack_end;
std::atomic<int> handled;
std::atomic<int> handled_elsewhere;

void look_where_the_stack_is(int) {
  const auto address = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  ++(address >= stack_begin && address < stack_end ? handled : handled_elsewhere);
}

// oneDNN before 3.11 points the stack pointer at its work space; a handler called there overwrites the heap.
TEST(Gemm, SignalHandlersRunOnTheStackOfTheThread) {
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = look_where_the_stack_is;
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  handled = handled_elsewhere = 0;
  stack_begin = stack_end = 0;
  std::jthread multiplies([](const std::stop_token& stop) {
    pthread_attr_t attributes;
    void* stack = nullptr;
    size_t bytes = 0;
    ASSERT_EQ(::pthread_getattr_np(::pthread_self(), &attributes), 0);
    ASSERT_EQ(::pthread_attr_getstack(&attributes, &stack, &bytes), 0);
    ::pthread_attr_destroy(&attributes);
    stack_begin = reinterpret_cast<uintptr_t>(stack);
    stack_end = stack_begin + bytes;
    while (!stop.stop_requested()) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          const Product<float> product{ta, tb, 128, 256, 256, 1, 0};
          std::vector<float> c = product.c;
          multiply_with_gemm(product, c);
        }
      }
    }
  });
  constexpr int kSignals = 100;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (handled + handled_elsewhere < kSignals && std::chrono::steady_clock::now() < limit) {
    if (stack_end != 0) ::pthread_kill(multiplies.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  multiplies.request_stop();
  multiplies.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_GE(handled, kSignals);
  EXPECT_EQ(handled_elsewhere, 0);
}

}  // namespace
}  // namespace millrace::gemm_test
