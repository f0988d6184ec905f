#include "benchmarks/print_element.h"

#include <cctype>

#include <fmt/format.h>

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

template <typename T>
std::string print_values(const Column& column, size_t max_values) {
  std::string text;
  const auto values = column.values<T>(0);
  for (const T& value : values.first(std::min(values.size(), max_values))) {
    if (!text.empty()) text += ' ';
    if constexpr (std::is_same_v<T, std::string_view>) {
      text += print_bytes(value);
    } else {
      text += fmt::to_string(value);
    }
  }
  return values.size() > max_values ? text + " ..." : text;
}

std::string print_column(const Column& column, size_t max_values) {
  switch (column.dtype()) {
    case DType::kInt32: return print_values<int32_t>(column, max_values);
    case DType::kInt64: return print_values<int64_t>(column, max_values);
    case DType::kFloat32: return print_values<float>(column, max_values);
    case DType::kBytes: return print_values<std::string_view>(column, max_values);
  }
  return "";
}

}  // namespace

std::string print_element(const Batch& batch, size_t max_values) {
  std::string text;
  const auto& features = batch.schema().features();
  for (size_t i = 0; i < features.size(); ++i) {
    const Column& column = batch.block().column(i);
    text += fmt::format("  {} {} {}: {}\n", features[i].name, to_string(column.dtype()), to_string(column.shape(0)),
                        print_column(column, max_values));
  }
  return text;
}

}  // namespace millrace
