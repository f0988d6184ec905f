#include "millrace/formats/safetensors/reader.h"

#include <algorithm>
#include <bit>
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
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// A file of the local disk, and what it is read with.
struct LocalFile {
  explicit LocalFile(const std::string& path) : file(storage, path) {}

  InlineExecutor executor;
  LocalStorage storage{executor};
  BlockingFile file;
};

std::shared_ptr<BlockingFile> open(const std::string& path) {
  const auto opened = std::make_shared<LocalFile>(path);
  return {opened, &opened->file};
}

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

void StoredTensor::read(uint64_t offset, std::span<std::byte> destination) const {
  file->read(begin + offset, destination);
}

void StoredTensor::each_piece(
    const std::function<void(uint64_t offset, std::span<const std::byte> bytes)>& take) const {
  std::vector<std::byte> piece(std::min(num_bytes, kPieceBytes));
  for (uint64_t offset = 0; offset < num_bytes; offset += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), num_bytes - offset));
    read(offset, piece);
    take(offset, piece);
  }
}

bool is_equal(const StoredTensor& a, const StoredTensor& b) {
  if (a.type != b.type || a.shape != b.shape) return false;
  if (a.file == b.file && a.begin == b.begin) return true;
  std::vector<std::byte> of_a(std::min(a.num_bytes, kPieceBytes));
  std::vector<std::byte> of_b(of_a.size());
  for (uint64_t offset = 0; offset < a.num_bytes; offset += of_a.size()) {
    of_a.resize(std::min<uint64_t>(of_a.size(), a.num_bytes - offset));
    of_b.resize(of_a.size());
    a.read(offset, of_a);
    b.read(offset, of_b);
    if (of_a != of_b) return false;
  }
  return true;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  const std::shared_ptr<BlockingFile> opened = open(path);
  BlockingFile& file = *opened;
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
    StoredTensor tensor{.name = name,
                        .type = *type,
                        .file = opened,
                        .begin = kLengthBytes + header_bytes + begin,
                        .num_bytes = end - begin};
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
    tensors_.push_back(std::move(tensor));
  }

  // Tensors follow each other without gap or overlap, to the end of the file.
  std::ranges::sort(tensors_, {}, [](const StoredTensor& tensor) { return std::pair(tensor.begin, tensor.num_bytes); });
  const uint64_t first = kLengthBytes + header_bytes;
  uint64_t at = first;
  for (const StoredTensor& tensor : tensors_) {
    if (tensor.begin > at) {
      refuse(path, fmt::format("bytes [{}, {}) belong to no tensor", at - first, tensor.begin - first));
    }
    if (tensor.begin < at) {
      refuse(path, fmt::format("tensor '{}' overlaps the one before it", shown(tensor.name)));
    }
    at += tensor.num_bytes;
  }
  if (at != file.size()) refuse(path, fmt::format("{} bytes after the last tensor", file.size() - at));
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  for (const StoredTensor& tensor : tensors_) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

const StoredTensor& SafetensorsFile::get(std::string_view name, TensorType type) const {
  const StoredTensor* tensor = find(name);
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
