#include "benchmarks/print_element.h"

#include <cctype>

#include <fmt/format.h>

#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

std::string print_bytes(std::string_view bytes) {
  constexpr size_t kShown = 40;
  std::string text = "\"";
  for (const char c : bytes.substr(0, kShown)) {
    if (std::isprint(static_cast<unsigned char>(c)) != 0 && c != '"' && c != '\\') {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text + (bytes.size() > kShown ? fmt::format("\"... ({} bytes)", bytes.size()) : "\"");
}

// The values of the first element with brackets around each row, but not around the whole.
template <typename T>
class NestedValues {
 public:
  NestedValues(const Column& column, size_t max_values)
      : column_(column), shape_(column.shape(0)), values_(column.values<T>(0)), left_(max_values) {}

  std::string print() {
    if (shape_.empty()) {
      print_value(0);
    } else {
      print_entries(0, 0);
    }
    return std::move(text_);
  }

 private:
  // The entries of one row of a dimension; false when there are more than are shown.
  bool print_entries(size_t dimension, size_t row) {
    size_t begin = 0;
    size_t end = 0;
    if (shape_[dimension] == kRagged) {
      const std::span<const int64_t> splits = column_.row_splits(0, dimension);
      begin = static_cast<size_t>(splits[row]);
      end = static_cast<size_t>(splits[row + 1]);
    } else {
      const auto size = static_cast<size_t>(shape_[dimension]);
      begin = row * size;
      end = begin + size;
    }
    for (size_t entry = begin; entry < end; ++entry) {
      if (entry > begin) text_ += ' ';
      if (left_ == 0) {
        text_ += "...";
        return false;
      }
      if (dimension + 1 == shape_.size()) {
        print_value(entry);
      } else {
        const size_t before = left_;
        text_ += '[';
        if (!print_entries(dimension + 1, entry)) return false;
        text_ += ']';
        if (left_ == before) --left_;  // or rows without values would have no end
      }
    }
    return true;
  }

  void print_value(size_t value) {
    --left_;
    if constexpr (std::is_same_v<T, std::string_view>) {
      text_ += print_bytes(values_[value]);
    } else {
      text_ += fmt::to_string(values_[value]);
    }
  }

  const Column& column_;
  const Shape shape_;
  const std::span<const T> values_;
  size_t left_;
  std::string text_;
};

template <typename T>
std::string print_values(const Column& column, size_t max_values) {
  return NestedValues<T>(column, max_values).print();
}

std::string print_column(const Column& column, size_t max_values) {
  return visit_dtype(column.dtype(), [&]<typename T>() { return print_values<T>(column, max_values); });
}

}  // namespace

std::string print_element(const Batch& batch, size_t max_values) {
  std::string text;
  const auto& features = batch.schema().features();
  for (size_t i = 0; i < features.size(); ++i) {
    const Column& column = batch.block().column(i);
    text += fmt::format("  {} {} {}: {}\n", printable(features[i].name), to_string(column.dtype()),
                        to_string(column.shape(0)), print_column(column, max_values));
  }
  return text;
}

}  // namespace millrace
