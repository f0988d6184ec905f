// What the kernels make of values that are not finite. The operators' values are compared by golden_test.cc and
// gradients_test.cc.
#include "millrace/trainer/tensor/kernels.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace millrace::kernels_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
using Function = std::function<void(const T* x, int64_t n, T* y)>;

template <typename T>
std::vector<std::pair<std::string, Function<T>>> functions_by_value() {
  const Kernels<T>& k = kernels<T>();
  static std::vector<T> slope(64);
  return {{"gelu", k.gelu},
          {"gelu_tanh", k.gelu_tanh},
          {"relu", [&](const T* x, int64_t n, T* y) { k.relu(x, 0, n, y); }},
          {"leaky relu", [&](const T* x, int64_t n, T* y) { k.relu(x, T(0.1), n, y); }},
          {"relu_with_slope", [&](const T* x, int64_t n, T* y) { k.relu_with_slope(x, n, y, slope.data()); }},
          {"gelu_with_slope", [&](const T* x, int64_t n, T* y) { k.gelu_with_slope(x, n, y, slope.data()); }},
          {"gelu_tanh_with_slope", [&](const T* x, int64_t n, T* y) { k.gelu_tanh_with_slope(x, n, y, slope.data()); }},
          {"silu_with_slope", [&](const T* x, int64_t n, T* y) { k.silu_with_slope(x, n, y, slope.data()); }},
          {"slope of silu", [&](const T* x, int64_t n, T* y) { k.silu_with_slope(x, n, slope.data(), y); }},
          {"slope of relu", [&](const T* x, int64_t n, T* y) { k.relu_with_slope(x, n, slope.data(), y); }},
          {"slope of gelu", [&](const T* x, int64_t n, T* y) { k.gelu_with_slope(x, n, slope.data(), y); }},
          {"sigmoid", k.sigmoid},
          {"tanh", k.tanh}};
}

template <typename T>
class KernelsOf : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KernelsOf, Types);

// 37 values: whole vectors of every instruction set and a rest.
constexpr int64_t kCount = 37;

template <typename T>
std::vector<T> some_values() {
  std::vector<T> x(kCount);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(std::sin(1.7 * static_cast<double>(i)));
  return x;
}

TYPED_TEST(KernelsOf, MakeNanOfNanAndOfNothingElse) {
  using T = TypeParam;
  for (const auto& [name, function] : functions_by_value<T>()) {
    for (size_t at = 0; at < kCount; ++at) {
      std::vector<T> x = some_values<T>();
      x[at] = std::numeric_limits<T>::quiet_NaN();
      std::vector<T> y(kCount);
      function(x.data(), kCount, y.data());
      const bool expected = std::isnan(y[at]) || name == "slope of relu";
      ASSERT_TRUE(expected) << name << " at " << at << " is " << y[at];
      for (size_t i = 0; i < kCount; ++i) ASSERT_TRUE(i == at || std::isfinite(y[i])) << name << " at " << i;
    }
  }
}

TYPED_TEST(KernelsOf, HaveTheLimitsOfTheirFunctions) {
  using T = TypeParam;
  const std::vector<T> x = {T(kInfinity), T(-kInfinity), T(1000), T(-1000)};
  std::vector<T> y(x.size());
  const auto values = [&](auto function) {
    function(y.data());
    return std::vector<double>(y.begin(), y.end());
  };
  const Kernels<T>& k = kernels<T>();
  EXPECT_THAT(values([&](T* to) { k.relu(x.data(), 0, 4, to); }), testing::ElementsAre(kInfinity, 0, 1000, 0));
  EXPECT_THAT(values([&](T* to) { k.relu(x.data(), T(0.5), 4, to); }),
              testing::ElementsAre(kInfinity, -kInfinity, 1000, -500));
  EXPECT_THAT(values([&](T* to) { k.sigmoid(x.data(), 4, to); }), testing::ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(values([&](T* to) { k.tanh(x.data(), 4, to); }), testing::ElementsAre(1, -1, 1, -1));
  // The gradient of infinity is none where the function is flat.
  const std::vector<T> dy(x.size(), T(kInfinity));
  EXPECT_THAT(values([&](T* to) { k.relu_backward(x.data(), 0, dy.data(), 4, false, to); }),
              testing::ElementsAre(kInfinity, 0, kInfinity, 0));
}

// One NaN in a row makes the whole row NaN, wherever it lies, and no other row.
TYPED_TEST(KernelsOf, LoseNoNanOfARow) {
  using T = TypeParam;
  const Kernels<T>& k = kernels<T>();
  for (size_t at = 0; at < kCount; ++at) {
    for (const bool infinite : {false, true}) {
      std::vector<T> x = some_values<T>();
      x[at] = infinite ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::quiet_NaN();
      const T log_sum = k.log_sum_exp(x.data(), kCount);
      ASSERT_TRUE(std::isnan(log_sum)) << at << ": " << log_sum;
      std::vector<T> dx(kCount);
      k.scaled_exp(x.data(), log_sum, 1, kCount, false, dx.data());
      for (const T value : dx) ASSERT_TRUE(std::isnan(value)) << at;
      std::vector<T> rows = some_values<T>();
      rows.insert(rows.end(), x.begin(), x.end());
      k.softmax(2, kCount, rows.data());
      for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(std::isnan(rows[i]), i >= kCount) << at << ", value " << i;
    }
  }
}

}  // namespace
}  // namespace millrace::kernels_test
