#include "millrace/formats/safetensors/reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <span>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/safetensors/tensor_name.h"
#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/storage/local.h"

namespace millrace {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

constexpr size_t kLengthBytes = 8;
// The reference implementation refuses longer headers too.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw ErrorException(Error{.code = ErrorCode::kParse, .message = "safetensors: " + why, .shard = path});
}

std::optional<TensorType> type_of(const std::string& name) {
  for (const TensorType type : {TensorType::kF32, TensorType::kF64, TensorType::kI32, TensorType::kI64, TensorType::kU8,
                                TensorType::kF16, TensorType::kBF16}) {
    if (to_string(type) == name) return type;
  }
  return std::nullopt;
}

// A text of the file with what would end or tear a line of a message escaped, and no more of it than a line takes.
std::string shown(const std::string& text) {
  constexpr size_t kMost = 120;
  const std::string escaped = json(text).dump(-1, ' ', /*ensure_ascii=*/true);
  return escaped.size() - 2 <= kMost ? escaped.substr(1, escaped.size() - 2) : escaped.substr(1, kMost) + "...";
}

// The header as JSON. A key that comes twice would hide a tensor, so it is refused.
json parse_header(const std::string& path, std::string_view text) {
  if (const std::string why = unreadable_json(text); !why.empty()) refuse(path, "the header: " + why);
  if (is_nested_too_deeply(text)) refuse(path, "the header is nested too deeply");
  std::vector<std::set<std::string>> keys;
  std::string twice;
  json header = json::parse(
      text.begin(), text.end(),
      [&](int, json::parse_event_t event, json& parsed) {
        if (event == json::parse_event_t::object_start) keys.emplace_back();
        if (event == json::parse_event_t::object_end) keys.pop_back();
        if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
          twice = parsed.get<std::string>();
        }
        return true;
      },
      /*allow_exceptions=*/false);
  if (header.is_discarded()) refuse(path, "the header is not JSON");
  if (!header.is_object()) refuse(path, "the header is not a JSON object");
  if (!twice.empty()) refuse(path, fmt::format("the header names '{}' twice", shown(twice)));
  return header;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  InlineExecutor executor;
  LocalStorage storage(executor);
  BlockingFile file(storage, path);
  if (file.size() < kLengthBytes) {
    refuse(path, fmt::format("{} bytes; the length of the header needs 8", file.size()));
  }
  uint64_t header_bytes = 0;
  file.read(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  if (header_bytes > file.size() - kLengthBytes) {
    refuse(path, fmt::format("a header of {} bytes where {} are left", header_bytes, file.size() - kLengthBytes));
  }
  if (header_bytes > kMaxHeaderBytes) {
    refuse(path, fmt::format("a header of {} bytes; at most {} are allowed", header_bytes, kMaxHeaderBytes));
  }
  std::string header_text(header_bytes, '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(header_text)));
  const json header = parse_header(path, header_text);
  const uint64_t body_bytes = file.size() - kLengthBytes - header_bytes;

  struct Placed {
    uint64_t begin;
    uint64_t end;
    NamedTensor tensor;
  };
  std::vector<Placed> placed;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (entry.is_null()) continue;  // as Go writes none
      if (!entry.is_object()) refuse(path, "__metadata__ is not an object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) refuse(path, fmt::format("__metadata__ '{}' is not a string", shown(key)));
        metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    if (has_control_character(name)) {
      refuse(path, fmt::format("the name of tensor '{}' has a control character", shown(name)));
    }
    const std::string shown_name = shown(name);
    if (!entry.is_object()) refuse(path, fmt::format("tensor '{}' is not an object", shown_name));
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!entry.contains(field)) refuse(path, fmt::format("tensor '{}' has no {}", shown_name, field));
    }
    if (!entry["dtype"].is_string())
      refuse(path, fmt::format("tensor '{}' has a dtype that is not a string", shown_name));
    const std::string type_name = entry["dtype"].get<std::string>();
    const std::optional<TensorType> type = type_of(type_name);
    if (!type) {
      refuse(path, fmt::format("tensor '{}' has dtype {}; F32, F64, F16, BF16, I32, I64 and U8 are read", shown_name,
                               shown(type_name)));
    }

    const auto is_count = [](const json& number) { return number.is_number_unsigned(); };
    const json& offsets = entry["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !std::all_of(offsets.begin(), offsets.end(), is_count)) {
      refuse(path, fmt::format("tensor '{}' has data_offsets that are not two numbers", shown_name));
    }
    const auto begin = offsets[0].get<uint64_t>();
    const auto end = offsets[1].get<uint64_t>();
    if (begin > end || end > body_bytes) {
      refuse(path, fmt::format("tensor '{}' lies at [{}, {}) of {} bytes", shown_name, begin, end, body_bytes));
    }
    const json& shape = entry["shape"];
    if (!shape.is_array() || !std::all_of(shape.begin(), shape.end(), is_count)) {
      refuse(path, fmt::format("tensor '{}' has a shape that is not a list of sizes", shown_name));
    }
    NamedTensor tensor{.name = name, .type = *type, .shape = {}, .bytes = {}};
    uint64_t needed = size_of(*type);
    for (const json& size : shape) {
      const auto count = size.get<uint64_t>();
      if (__builtin_mul_overflow(needed, count, &needed) || count > INT64_MAX) {
        refuse(path, fmt::format("tensor '{}' has a shape whose size overflows", shown_name));
      }
      tensor.shape.push_back(static_cast<int64_t>(count));
    }
    if (needed != end - begin) {
      refuse(path,
             fmt::format("tensor '{}' has {} bytes, its shape and type need {}", shown_name, end - begin, needed));
    }
    placed.push_back({begin, end, std::move(tensor)});
  }

  // Tensors follow each other without gap or overlap, to the end of the file.
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  uint64_t at = 0;
  for (const auto& [begin, end, tensor] : placed) {
    if (begin > at) refuse(path, fmt::format("bytes [{}, {}) belong to no tensor", at, begin));
    if (begin < at) refuse(path, fmt::format("tensor '{}' overlaps the one before it", shown(tensor.name)));
    at = end;
  }
  if (at != body_bytes) refuse(path, fmt::format("{} bytes after the last tensor", body_bytes - at));

  // Memory is taken for what the header accounts for.
  data_.resize(body_bytes);
  file.read(kLengthBytes + header_bytes, std::as_writable_bytes(std::span(data_)));
  const std::span<const std::byte> body = std::as_bytes(std::span(data_));
  for (auto& [begin, end, tensor] : placed) {
    tensor.bytes = body.subspan(begin, end - begin);
    tensors_.push_back(std::move(tensor));
  }
}

const NamedTensor* SafetensorsFile::find(std::string_view name) const {
  for (const NamedTensor& tensor : tensors_) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

const NamedTensor& SafetensorsFile::get(std::string_view name, TensorType type) const {
  const NamedTensor* tensor = find(name);
  if (tensor == nullptr) {
    throw ErrorException(Error{.code = ErrorCode::kMissingFeature,
                               .message = fmt::format("safetensors: no tensor '{}'", name),
                               .shard = path_});
  }
  if (tensor->type != type) {
    throw ErrorException(Error{.code = ErrorCode::kWrongShape,
                               .message = fmt::format("safetensors: tensor '{}' is {}, expected {}", name,
                                                      to_string(tensor->type), to_string(type)),
                               .shard = path_});
  }
  return *tensor;
}

}  // namespace millrace
