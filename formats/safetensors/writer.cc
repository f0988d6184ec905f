#include "millrace/formats/safetensors/writer.h"

#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/safetensors/tensor_name.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

constexpr const char* kMetadata = "__metadata__";

}  // namespace

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const auto& [key, value] : metadata) {
    if (!is_valid_utf8(key) || !is_valid_utf8(value)) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("safetensors: metadata '{}' is no UTF-8", printable(key)));
    }
  }
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::set<std::string_view> names;
  uint64_t at = 0;
  for (const NamedTensor& tensor : tensors) {
    const auto refuse = [&](const std::string& why) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("safetensors: tensor '{}' {}", tensor.name, why));
    };
    if (has_control_character(tensor.name)) refuse("has a control character in its name");
    if (!is_valid_utf8(tensor.name)) refuse("has a name that is no UTF-8");
    if (tensor.name == kMetadata) refuse("has the name of what is no tensor");
    if (!names.insert(tensor.name).second) refuse("is given twice");
    uint64_t needed = size_of(tensor.type);
    for (const int64_t size : tensor.shape) {
      if (size < 0 || __builtin_mul_overflow(needed, static_cast<uint64_t>(size), &needed)) {
        refuse("has a shape whose size is negative or overflows");
      }
    }
    if (needed != tensor.bytes.size()) {
      refuse(fmt::format("has {} bytes, its shape and type need {}", tensor.bytes.size(), needed));
    }
    header[tensor.name] = {
        {"dtype", to_string(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text = header.dump();
  constexpr size_t kAlignment = 8;
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size();

  AtomicFile file(path);
  file.write({reinterpret_cast<const char*>(&length), sizeof length});
  file.write(text);
  for (const NamedTensor& tensor : tensors) {
    file.write({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  }
  file.commit();
}

}  // namespace millrace
