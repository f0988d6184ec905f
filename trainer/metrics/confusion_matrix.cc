#include "millrace/trainer/metrics/confusion_matrix.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

std::optional<double> share(int64_t part, int64_t all) {
  if (all == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(all);
}

nlohmann::ordered_json json_of(std::optional<double> number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::vector<std::string> names)
    : names_(std::move(names)), counts_((names_.size() + 1) * (names_.size() + 1)) {}

size_t ConfusionMatrix::place_of(int64_t truth, int64_t predicted) const {
  for (const int64_t number : {truth, predicted}) {
    if (number >= -1 && number < num_classes()) continue;
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("class {} of {} classes", number, num_classes()));
  }
  const auto place = [this](int64_t number) { return number < 0 ? num_classes() : number; };
  return static_cast<size_t>(place(truth) * (num_classes() + 1) + place(predicted));
}

int64_t ConfusionMatrix::rows_of(int64_t truth) const {
  int64_t sum = 0;
  for (int64_t predicted = -1; predicted < num_classes(); ++predicted) sum += count(truth, predicted);
  return sum;
}

int64_t ConfusionMatrix::rows_with_class() const { return rows() - rows_of(-1); }

int64_t ConfusionMatrix::rows() const {
  int64_t sum = 0;
  for (const int64_t count : counts_) sum += count;
  return sum;
}

int64_t ConfusionMatrix::predicted_as(int64_t predicted) const {
  int64_t sum = 0;
  for (int64_t truth = -1; truth < num_classes(); ++truth) sum += count(truth, predicted);
  return sum;
}

std::optional<double> ConfusionMatrix::accuracy() const {
  int64_t right = 0;
  for (int64_t i = 0; i < num_classes(); ++i) right += count(i, i);
  return share(right, rows_with_class());
}

int64_t ConfusionMatrix::right(int64_t number) const {
  if (number < 0) throw ErrorException(ErrorCode::kInvalidArgument, "no class has no share of right ones");
  return count(number, number);
}

std::optional<double> ConfusionMatrix::precision(int64_t number) const {
  return share(right(number), known_predicted_as(number));
}

std::optional<double> ConfusionMatrix::recall(int64_t number) const { return share(right(number), rows_of(number)); }

std::optional<double> ConfusionMatrix::f1(int64_t number) const {
  return share(2 * right(number), rows_of(number) + known_predicted_as(number));
}

std::optional<double> ConfusionMatrix::macro_f1() const {
  double sum = 0;
  int64_t classes = 0;
  for (int64_t i = 0; i < num_classes(); ++i) {
    const std::optional<double> value = f1(i);
    sum += value.value_or(0);
    classes += value ? 1 : 0;
  }
  if (classes == 0) return std::nullopt;
  return sum / static_cast<double>(classes);
}

std::string ConfusionMatrix::to_text() const {
  size_t width = 8;
  for (const std::string& name : names_) width = std::max(width, name.size() + 2);
  std::string text = fmt::format("{:<{}}", "", width);
  for (const std::string& name : names_) text += fmt::format("{:>{}}", name, width);
  text += fmt::format("{:>{}}", "no class", width + 2);
  const auto add_counts = [&](const std::string& name, const auto& count_of) {
    text += fmt::format("\n{:<{}}", name, width);
    for (int64_t said = 0; said < num_classes(); ++said) text += fmt::format("{:>{}}", count_of(said), width);
    text += fmt::format("{:>{}}", count_of(-1), width + 2);
  };
  for (int64_t truth = 0; truth < num_classes() && accuracy(); ++truth) {
    add_counts(names_[static_cast<size_t>(truth)], [&](int64_t said) { return count(truth, said); });
    if (rows_of(truth) == 0) continue;
    text += fmt::format("{:>7.1f}% right",
                        100 * static_cast<double>(count(truth, truth)) / static_cast<double>(rows_of(truth)));
  }
  add_counts("all", [&](int64_t said) { return predicted_as(said); });
  text += "\n";
  if (accuracy()) text += fmt::format("accuracy {:.4f} over {} rows\n", *accuracy(), rows_with_class());
  return text;
}

nlohmann::ordered_json ConfusionMatrix::to_json() const {
  nlohmann::ordered_json json = {{"rows", rows()}, {"no_class", predicted_as(-1)}};
  for (int64_t i = 0; i < num_classes(); ++i) json["predicted"][names_[static_cast<size_t>(i)]] = predicted_as(i);
  if (!accuracy()) return json;
  json["rows_with_class"] = rows_with_class();
  json["accuracy"] = *accuracy();
  json["macro_f1"] = json_of(macro_f1());
  for (int64_t truth = 0; truth < num_classes(); ++truth) {
    nlohmann::ordered_json& row = json["confusion"][names_[static_cast<size_t>(truth)]];
    for (int64_t said = 0; said < num_classes(); ++said) row[names_[static_cast<size_t>(said)]] = count(truth, said);
    row["no_class"] = count(truth, -1);
  }
  for (int64_t i = 0; i < num_classes(); ++i) {
    json["by_class"][names_[static_cast<size_t>(i)]] = {
        {"precision", json_of(precision(i))}, {"recall", json_of(recall(i))}, {"f1", json_of(f1(i))}};
  }
  return json;
}

}  // namespace millrace
