#include "millrace/ops/joined_schema.h"

#include <fmt/format.h>

namespace millrace {
namespace {

class JoinedStage final : public Stage {
 public:
  JoinedStage(std::unique_ptr<Stage> input, SchemaPtr schema, const std::vector<size_t>& columns)
      : input_(std::move(input)), schema_(std::move(schema)), columns_(columns) {}

  Poll next(Block& out) override {
    const Poll poll = input_->next(out);
    if (poll != Poll::kBlock) return poll;
    Block::Columns columns;
    columns.reserve(columns_.size());
    for (const size_t column : columns_) columns.push_back(out.column(column));
    out = out.with_columns(schema_, std::move(columns));
    return poll;
  }

 private:
  std::unique_ptr<Stage> input_;
  SchemaPtr schema_;
  std::vector<size_t> columns_;
};

}  // namespace

JoinedSchema::JoinedSchema(std::string_view operator_name, std::span<const SchemaPtr> inputs) {
  if (inputs.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: there are no inputs", operator_name));
  }
  std::vector<FeatureSpec> features = inputs[0]->features();
  std::vector<std::vector<size_t>> columns(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Schema& input = *inputs[i];
    bool same = input.size() == features.size();
    for (size_t c = 0; same && c < features.size(); ++c) {
      const int column = input.find(features[c].name);
      same = column >= 0;
      if (!same) break;
      const FeatureSpec& other = input[static_cast<size_t>(column)];
      same = other.dtype == features[c].dtype && other.shape.size() == features[c].shape.size();
      for (size_t d = 0; same && d < other.shape.size(); ++d) {
        if (other.shape[d] == features[c].shape[d]) continue;
        same = other.shape[d] != kRagged && features[c].shape[d] != kRagged;
        features[c].shape[d] = kVaries;
      }
      columns[i].push_back(static_cast<size_t>(column));
    }
    if (!same) {
      throw ErrorException(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: inputs have different features: {} and, input {}, {}; make them alike first, "
                      "with cast, rename, select, batch or unbatch",
                      operator_name, inputs[0]->to_string(), i, input.to_string()));
    }
  }
  schema_ = std::make_shared<const Schema>(std::move(features));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (*inputs[i] == *schema_) columns[i].clear();
  }
  columns_ = std::move(columns);
}

OpenStage JoinedSchema::opener(size_t input, OpenStage open) const {
  if (columns_[input].empty()) return open;
  return [schema = schema_, columns = columns_[input], open = std::move(open)](const StageContext& context) {
    return std::make_unique<JoinedStage>(open(context), schema, columns);
  };
}

}  // namespace millrace
