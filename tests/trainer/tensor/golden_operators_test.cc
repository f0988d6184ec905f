// Each operator against values and gradients of PyTorch, computed in float64.
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "formats/safetensors/reader.h"
#include "trainer/tensor/cross_entropy.h"
#include "trainer/tensor/embedding.h"
#include "trainer/tensor/gelu.h"
#include "trainer/tensor/layer_norm.h"
#include "trainer/tensor/linear.h"

namespace millrace {
namespace {

// A case's inputs as parameters of a layout, so that the tape gives the gradient of each.
template <typename T>
class GoldenCase {
 public:
  explicit GoldenCase(const std::string& name)
      : name_(name), file_(std::string(MILLRACE_TEST_DATA) + "/trainer/ops.safetensors") {
    std::ifstream stream(std::string(MILLRACE_TEST_DATA) + "/trainer/ops.json");
    case_ = nlohmann::json::parse(stream).at("cases").at(name);
    for (const auto& grad : case_.at("grad")) {
      const auto input = grad.get<std::string>();
      layout_.add(input, case_.at("in").at(input).get<std::vector<int64_t>>());
    }
    layout_.finish();
    weights_.resize(static_cast<size_t>(layout_.size()));
    gradients_.resize(weights_.size(), T{NAN});
    for (const Parameter& parameter : layout_.parameters()) {
      const std::vector<double> values = file_.values<double>(name + ".in." + parameter.name);
      std::copy(values.begin(), values.end(), weights_.begin() + parameter.offset);
    }
    tape.begin(layout_, weights_.data(), {.values = gradients_.data()});
  }

  double attribute(const char* attribute) const { return case_.at("attrs").at(attribute).get<double>(); }
  Tensor<T> input(const char* input) const { return tape.parameter(*layout_.find(input)); }
  std::vector<int32_t> ids(const char* input) const {
    const std::vector<int64_t> values = file_.values<int64_t>(name_ + ".in." + input);
    return {values.begin(), values.end()};
  }
  void expect(const Tensor<T>& output, const char* output_name, double tolerance) {
    expect_near(output.values, file_.values<double>(name_ + ".out." + output_name), tolerance, output_name);
    const std::vector<double> up = file_.values<double>(name_ + ".up." + output_name);
    const std::vector<T> upstream(up.begin(), up.end());
    tape.backward(output, upstream);
    for (const Parameter& parameter : layout_.parameters()) {
      expect_near(gradients_.data() + parameter.offset, file_.values<double>(name_ + ".grad." + parameter.name),
                  tolerance, "gradient of " + parameter.name);
    }
  }

  Arena arena;
  Tape<T> tape{arena};

 private:
  void expect_near(const T* values, const std::vector<double>& expected, double tolerance, const std::string& what) {
    double largest = 1;
    for (double value : expected) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(values[i], expected[i], tolerance * largest) << name_ << ": " << what << " [" << i << "]";
    }
  }

  std::string name_;
  SafetensorsFile file_;
  nlohmann::json case_;
  ParameterLayout layout_;
  std::vector<T> weights_;
  std::vector<T> gradients_;
};

template <typename T>
constexpr double kTolerance = sizeof(T) == 8 ? 1e-13 : 1e-6;

template <typename T>
class GoldenOperators : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(GoldenOperators, Types);

TYPED_TEST(GoldenOperators, Linear) {
  GoldenCase<TypeParam> golden("dense_bias");
  const auto y = linear(golden.tape, golden.input("x"), golden.input("w"), golden.input("bias"));
  golden.expect(y, "y", kTolerance<TypeParam>);
}

TYPED_TEST(GoldenOperators, LayerNorm) {
  // In float the deviation of a nearly constant row is rounding: only the usual epsilon.
  for (const char* name : {"layer_norm_1e-05", "layer_norm_1e-12"}) {
    GoldenCase<TypeParam> golden(name);
    const auto y = layer_norm(golden.tape, golden.input("x"), golden.input("gamma"), golden.input("beta"),
                              golden.attribute("eps"));
    golden.expect(y, "y", 10 * kTolerance<TypeParam>);
  }
}

TYPED_TEST(GoldenOperators, Gelu) {
  GoldenCase<TypeParam> golden("gelu_erf");
  golden.expect(gelu(golden.tape, golden.input("x")), "y", kTolerance<TypeParam>);
}

TYPED_TEST(GoldenOperators, Embedding) {
  GoldenCase<TypeParam> golden("embedding");
  const std::vector<int32_t> ids = golden.ids("ids");
  golden.expect(embedding_sum<TypeParam>(golden.tape, {{.table = golden.input("table"), .ids = ids}}), "y",
                kTolerance<TypeParam>);
}

TYPED_TEST(GoldenOperators, CrossEntropy) {
  for (const char* name : {"cross_entropy_sum", "cross_entropy_no_label"}) {
    GoldenCase<TypeParam> golden(name);
    const std::vector<int32_t> labels = golden.ids("labels");
    const auto loss = cross_entropy(golden.tape, golden.input("logits"), labels);
    EXPECT_EQ(loss.num_labels, std::string(name) == "cross_entropy_sum" ? 4 : 0);
    EXPECT_NEAR(loss.sum, *loss.tensor.values, 1e-6);
    golden.expect(loss.tensor, "loss", kTolerance<TypeParam>);
  }
}

}  // namespace
}  // namespace millrace
