#include "millrace/trainer/run/shape_limit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

// `input_ids [32,128], labels [32]`; without `rows` of a row.
std::string shapes_of(const BatchView& view, bool rows) {
  std::string text;
  for (const FeatureView& feature : view.features()) {
    const auto shape = feature.shape().subspan(rows ? 0 : 1);
    text += fmt::format("{}{} [{}]", text.empty() ? "" : ", ", printable(feature.name()), fmt::join(shape, ","));
  }
  return text;
}

}  // namespace

void ShapeLimit::batch_inputs(GlobalBatch& batch, int64_t number) {
  int64_t& most_rows = most_rows_[shapes_of(batch.view, /*rows=*/false)];
  if (batch.view.rows() <= most_rows) return;
  most_rows = batch.view.rows();
  if (++num_shapes_ <= most_) return;
  throw ErrorException(
      ErrorCode::kWrongShape,
      fmt::format("batch {} has the shapes {}; that makes {} different shapes of batches, at most {} allowed", number,
                  shapes_of(batch.view, /*rows=*/true), num_shapes_, most_));
}

std::string ShapeLimit::save_state() const {
  return nlohmann::json({{"num_shapes", num_shapes_}, {"most_rows", most_rows_}}).dump();
}

void ShapeLimit::restore_state(const std::string& state) {
  try {
    const nlohmann::json json = parse_json(state, "state of shape_limit");
    num_shapes_ = json.at("num_shapes").get<int64_t>();
    most_rows_ = json.at("most_rows").get<std::map<std::string, int64_t>>();
  } catch (const nlohmann::json::exception& error) {
    throw ErrorException(ErrorCode::kParse, fmt::format("state of shape_limit: {}", error.what()));
  }
}

}  // namespace millrace
