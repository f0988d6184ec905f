#include "millrace/trainer/run/data_look.h"

#include <iostream>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/columnar/schema.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

constexpr size_t kShownValues = 16;
constexpr size_t kShownCharacters = 200;  // of a line of the program's

std::string text_of(const FeatureView& feature) {
  const std::vector<int64_t> shape(feature.shape().begin() + 1, feature.shape().end());
  const std::string values = std::visit(
      []<typename T>(std::span<const T> all) {
        std::string text;
        for (const T value : all.first(std::min(all.size(), kShownValues))) text += fmt::format(" {}", value);
        return text + (all.size() > kShownValues ? " ..." : "");
      },
      feature.any_values());
  const std::string_view dtype =
      std::visit([]<typename T>(std::span<const T>) { return to_string(DTypeOf<std::remove_const_t<T>>::value); },
                 feature.any_values());
  return fmt::format("{} {} [{}]:{}", printable(excerpt(feature.name())), dtype, fmt::join(shape, ","), values);
}

}  // namespace

std::string look_at_row(const BatchView& row, const RowText& decoded) {
  std::string text;
  for (const FeatureView& feature : row.features()) text += fmt::format("  {}\n", text_of(feature));
  if (!decoded) return text;
  for (const std::string& line : decoded(row)) {
    text += fmt::format("  {}\n", printable(excerpt(line, kShownCharacters)));
  }
  return text;
}

void DataLook::batch_inputs(GlobalBatch& batch, int64_t number) {
  if (number > 0 || batch.view.rows() == 0) return;
  std::cerr << "the first row of the training:\n" << look_at_row(batch.view.slice(0, 1), decoded_);
}

}  // namespace millrace
