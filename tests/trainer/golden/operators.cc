#include "tests/trainer/golden/operators.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <list>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/safetensors/reader.h"
#include "millrace/trainer/tensor/absolute_error.h"
#include "millrace/trainer/tensor/add.h"
#include "millrace/trainer/tensor/bce_with_logits.h"
#include "millrace/trainer/tensor/conv2d.h"
#include "millrace/trainer/tensor/conv_transpose2d.h"
#include "millrace/trainer/tensor/cross_entropy.h"
#include "millrace/trainer/tensor/depthwise_conv2d.h"
#include "millrace/trainer/tensor/embedding.h"
#include "millrace/trainer/tensor/gelu.h"
#include "millrace/trainer/tensor/layer_norm.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/matmul.h"
#include "millrace/trainer/tensor/mean_pool.h"
#include "millrace/trainer/tensor/relu.h"
#include "millrace/trainer/tensor/rms_norm.h"
#include "millrace/trainer/tensor/scale.h"
#include "millrace/trainer/tensor/sigmoid.h"
#include "millrace/trainer/tensor/softmax.h"
#include "millrace/trainer/tensor/squared_error.h"
#include "millrace/trainer/tensor/sum.h"
#include "millrace/trainer/tensor/tanh.h"
#include "tests/trainer/golden/json_file.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

// One case in one type: inputs with a gradient are parameters of a layout, the others constants.
template <typename T>
class Case {
 public:
  Case(const std::string& name, const Json& json, const SafetensorsFile& file)
      : name_(name), json_(json), attributes_(json.at("attrs")), file_(file) {
    for (const Json& grad : json.at("grad")) {
      layout_.add(grad.get<std::string>(), json.at("in").at(grad.get<std::string>()).get<std::vector<int64_t>>());
    }
    layout_.finish();
    weights_.resize(static_cast<size_t>(layout_.size()));
    gradients_.resize(weights_.size(), T{NAN});
    for (const Parameter& parameter : layout_.parameters()) {
      const std::vector<double> values = file.values<double>(in(parameter.name));
      std::copy(values.begin(), values.end(), weights_.begin() + parameter.offset);
    }
    tape_.begin(layout_, weights_.data(), {.values = gradients_.data()});
  }

  void check(double limit, GoldenReport& report) {
    const Tensor<T> output = apply();
    const std::string y = json_.at("out").items().begin().key();
    const std::string label = fmt::format("{} {} {}", name_, sizeof(T) == 8 ? "float64" : "float32", y);
    compare(report, label, output.values, output.count(), name_ + ".out." + y, limit);
    const std::vector<double> up = file_.values<double>(name_ + ".up." + y);
    const std::vector<T> upstream(up.begin(), up.end());
    tape_.backward(output, upstream);
    for (const Parameter& parameter : layout_.parameters()) {
      compare(report, label + ", gradient of " + parameter.name, gradients_.data() + parameter.offset, parameter.size,
              name_ + ".grad." + parameter.name, limit);
    }
  }

 private:
  std::string in(const std::string& input) const { return name_ + ".in." + input; }
  bool has(const char* input) const { return json_.at("in").contains(input); }
  TensorShape shape(const std::string& input) const {
    return TensorShape(json_.at("in").at(input).get<std::vector<int64_t>>());
  }
  Tensor<T> input(const std::string& input) {
    if (const auto id = layout_.find(input)) return tape_.parameter(*id);
    const std::vector<double> values = file_.values<double>(in(input));
    constants_.emplace_back(values.begin(), values.end());
    return tape_.constant(constants_.back().data(), shape(input));
  }
  const std::vector<int32_t>& ids(const std::string& input) {
    const std::vector<int64_t> values = file_.values<int64_t>(in(input));
    ids_.emplace_back(values.begin(), values.end());
    return ids_.back();
  }
  std::string text(const char* name, const char* otherwise) const { return attributes_.value(name, otherwise); }
  void need_last_axis() const {
    if (attributes_.value("axis", -1) != -1) throw std::runtime_error("only the last axis is known");
  }

  Tensor<T> reduced(const Tensor<T>& loss, int64_t count) {
    const std::string reduction = text("reduction", "none");
    if (reduction == "none") return loss;
    const Tensor<T> total = sum(tape_, loss);
    if (reduction == "sum") return total;
    if (reduction == "mean") return scale(tape_, total, 1 / static_cast<double>(count));
    throw std::runtime_error("unknown reduction " + reduction);
  }
  Tensor<T> with_bias(const Tensor<T>& y) { return has("bias") ? add_bias(tape_, y, input("bias")) : y; }

  Tensor<T> matmul_case() {
    const bool dense = has("w");
    const MatmulOptions options{attributes_.value("transpose_a", false), attributes_.value("transpose_b", false)};
    if (dense && options.transpose_b && !options.transpose_a && has("bias")) {
      return linear(tape_, input("x"), input("w"), input("bias"));
    }
    return with_bias(matmul(tape_, input(dense ? "x" : "a"), input(dense ? "w" : "b"), options));
  }
  Tensor<T> softmax_case() {
    need_last_axis();
    if (!has("mask")) return softmax(tape_, input("x"));
    mask_ = file_.values<uint8_t>(in("mask"));
    return softmax(tape_, input("x"), mask_);
  }
  Tensor<T> cross_entropy_case() {
    std::vector<int32_t> labels = ids("labels");
    std::replace(labels.begin(), labels.end(), attributes_.value("ignore_index", kNoLabel), kNoLabel);
    ids_.push_back(labels);
    if (text("reduction", "none") == "sum") return cross_entropy(tape_, input("logits"), ids_.back()).tensor;
    return reduced(cross_entropy_rows(tape_, input("logits"), ids_.back()),
                   std::ssize(labels) - std::count(labels.begin(), labels.end(), kNoLabel));
  }
  Tensor<T> mean_pool_case() {
    if (attributes_.value("axis", 1) != 1) throw std::runtime_error("only axis 1 is known");
    pool_mask_ = file_.values<int64_t>(in("mask"));
    return mean_pool(tape_, input("x"), pool_mask_);
  }
  template <typename Convolution>
  Tensor<T> convolution(const Convolution& apply) {
    if (text("padding", "SAME") != "SAME") throw std::runtime_error("only SAME padding is known");
    return with_bias(apply(tape_, input("x"), input("kernel"), attributes_.value("stride", int64_t{1})));
  }

  Tensor<T> apply() {
    const auto op = json_.at("op").get<std::string>();
    const auto epsilon = [&] { return attributes_.at("eps").get<double>(); };
    const auto values_of = [&](const char* name) { return input(name).count(); };
    if (op == "matmul") return matmul_case();
    if (op == "softmax") return softmax_case();
    if (op == "layer_norm") {
      need_last_axis();
      return layer_norm(tape_, input("x"), input("gamma"), input("beta"), epsilon());
    }
    if (op == "rms_norm") {
      need_last_axis();
      return rms_norm(tape_, input("x"), input("gamma"), epsilon());
    }
    if (op == "gelu") {
      return text("approximate", "none") == "tanh" ? gelu_tanh(tape_, input("x")) : gelu(tape_, input("x"));
    }
    if (op == "relu") return relu(tape_, input("x"));
    if (op == "leaky_relu") return leaky_relu(tape_, input("x"), attributes_.at("slope").get<double>());
    if (op == "sigmoid") return sigmoid(tape_, input("x"));
    if (op == "tanh") return tanh(tape_, input("x"));
    if (op == "embedding") return embedding_sum<T>(tape_, {{.table = input("table"), .ids = ids("ids")}});
    if (op == "cross_entropy") return cross_entropy_case();
    if (op == "bce_with_logits") return reduced(bce_with_logits(tape_, input("x"), input("target")), values_of("x"));
    if (op == "l1") return reduced(absolute_error(tape_, input("x"), input("target")), values_of("x"));
    if (op == "mse") return reduced(squared_error(tape_, input("x"), input("target")), values_of("x"));
    if (op == "mean_pool") return mean_pool_case();
    if (op == "conv2d") return convolution(conv2d<T>);
    if (op == "depthwise_conv2d") return convolution(depthwise_conv2d<T>);
    if (op == "conv_transpose") return convolution(conv_transpose2d<T>);
    throw std::runtime_error("unknown operator " + op);
  }

  void compare(GoldenReport& report, const std::string& label, const T* values, int64_t count, const std::string& name,
               double limit) {
    const std::vector<double> expected = file_.values<double>(name);
    double largest = 0;
    for (double value : expected) largest = std::max(largest, std::abs(value));
    report.compare(label, std::vector<double>(values, values + count), expected, 0, limit * std::max(1.0, largest));
  }

  std::string name_;
  const Json& json_;
  const Json& attributes_;
  const SafetensorsFile& file_;
  ParameterLayout layout_;
  std::vector<T> weights_;
  std::vector<T> gradients_;
  std::list<std::vector<T>> constants_;
  std::list<std::vector<int32_t>> ids_;
  std::vector<uint8_t> mask_;
  std::vector<int64_t> pool_mask_;
  Arena arena_;
  Tape<T> tape_{arena_};
};

}  // namespace

void check_golden_operators(const std::string& stem, double float_limit, GoldenReport& report) {
  const std::string label = std::filesystem::path(stem).filename().string();
  report.begin_group(label + " operators");
  report.guard(label, [&] {
    const Json cases = read_json(stem + ".json").at("cases");
    const SafetensorsFile file(stem + ".safetensors");
    for (const auto& [name, json] : cases.items()) {
      report.guard(label + " " + name, [&, &case_name = name, &case_json = json] {
        report.begin_group(label + " operators in float64");
        Case<double>(case_name, case_json, file).check(1e-11, report);
        report.begin_group(label + " operators in float32");
        Case<float>(case_name, case_json, file).check(float_limit, report);
      });
    }
  });
}

}  // namespace millrace::test
