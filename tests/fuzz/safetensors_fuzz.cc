#include "tests/fuzz/safetensors_fuzz.h"

#include <algorithm>
#include <optional>
#include <string>

#include "millrace/formats/safetensors/reader.h"
#include "millrace/formats/safetensors/writer.h"
#include "tests/fuzz/fuzz_error.h"
#include "tests/support/loaded_tensors.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {
namespace {

std::optional<LoadedTensors> read(const std::string& path) {
  try {
    return LoadedTensors(path);
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kParse});
    require(exception.error().shard == path);
    return std::nullopt;
  }
}

bool same(const NamedTensor& a, const NamedTensor& b) {
  return a.type == b.type && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes);
}

std::string as_header(std::string_view text) {
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + std::string(text) +
         std::string(16, '\x7f');
}

}  // namespace

void fuzz_safetensors(std::string_view bytes) {
  static const TemporaryFolder folder;
  for (const std::string& some : {std::string(bytes), as_header(bytes)}) {
    write_file(folder.path("any"), some);
    const std::optional<LoadedTensors> file = read(folder.path("any"));
    if (!file) continue;
    write_safetensors(folder.path("again"), file->tensors(), file->metadata());
    const std::optional<LoadedTensors> again = read(folder.path("again"));
    require(again && again->metadata() == file->metadata() && again->tensors().size() == file->tensors().size());
    for (const NamedTensor& tensor : file->tensors()) {
      const NamedTensor* found = again->find(tensor.name);
      require(found != nullptr && same(tensor, *found));
    }
  }
}

}  // namespace millrace::test
