#include "tests/trainer/models/loss_case.h"

#include <memory>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "tests/trainer/golden/json_file.h"

namespace millrace::test {
namespace {

// Rows of one length.
template <typename T>
struct Rows {
  explicit Rows(const nlohmann::json& rows) {
    for (const nlohmann::json& row : rows) {
      if (!shape.empty() && row.size() != static_cast<size_t>(shape[1])) {
        throw ErrorException(ErrorCode::kParse, "rows of several lengths");
      }
      shape = {static_cast<int64_t>(rows.size()), static_cast<int64_t>(row.size())};
      for (const nlohmann::json& value : row) values.push_back(value.get<T>());
    }
  }
  FeatureView view(const char* name) const { return {name, std::span<const T>(values), shape}; }

  std::vector<T> values;
  std::vector<int64_t> shape;
};

struct Loaded {
  std::unique_ptr<Model> model;
  FlatBuffer weights;
};

Loaded load(const std::string& folder, const PretrainedOptions& options) {
  const auto type = read_json(folder + "/config.json").at("model_type").get<std::string>();
  if (type == "t5" || type == "mt5") {
    auto model = std::make_unique<T5ForConditionalGeneration>(load_t5_config(folder, options));
    FlatBuffer weights = load_t5_weights(folder, *model);
    return {.model = std::move(model), .weights = std::move(weights)};
  }
  auto model = std::make_unique<RobertaForMaskedLm>(load_roberta_config(folder, options));
  FlatBuffer weights = load_roberta_weights(folder, *model);
  return {.model = std::move(model), .weights = std::move(weights)};
}

}  // namespace

LossCase run_loss_case(const std::string& folder, const PretrainedOptions& options) {
  const nlohmann::json inputs = read_json(folder + "/inputs.json");
  const Rows<int32_t> ids(inputs.at("input_ids"));
  const Rows<int32_t> labels(inputs.at("labels"));
  const Rows<int64_t> mask(inputs.value("attention_mask", nlohmann::json::array()));
  std::vector<FeatureView> features = {ids.view("input_ids"), labels.view("labels")};
  if (!mask.values.empty()) features.push_back(mask.view("attention_mask"));
  const Loaded loaded = load(folder, options);
  const auto workspace = loaded.model->make_workspace();
  const StepResult result = loaded.model->evaluate(BatchView(features), loaded.weights.data(), *workspace);
  return {.loss = result.sum_loss / result.weight,
          .expected = read_json(folder + "/expected.json").at("loss").get<double>()};
}

}  // namespace millrace::test
