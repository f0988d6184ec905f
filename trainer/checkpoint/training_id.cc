#include "millrace/trainer/checkpoint/training_id.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/whole_file.h"

namespace millrace {
namespace {

constexpr const char* kFile = "training.id";
constexpr size_t kDigits = 32;

std::string file_in(const std::string& directory) { return (std::filesystem::path(directory) / kFile).string(); }

}  // namespace

std::string new_training_id() {
  std::array<unsigned char, kDigits / 2> bytes{};
  if (::getentropy(bytes.data(), bytes.size()) != 0) {
    throw ErrorException(ErrorCode::kIo,
                         fmt::format("no random bytes for the training's id: {}", std::strerror(errno)));
  }
  std::string id;
  for (const unsigned char byte : bytes) id += fmt::format("{:02x}", byte);
  return id;
}

void write_training_id(const std::string& directory, const std::string& id) {
  write_atomically(file_in(directory), id + "\n");
}

void remove_training_id(const std::string& directory) noexcept {
  std::error_code there_is_none;
  std::filesystem::remove(file_in(directory), there_is_none);
}

std::optional<std::string> read_training_id(const std::string& directory) {
  const std::string file = file_in(directory);
  if (!std::filesystem::exists(file)) return std::nullopt;
  std::string text = read_whole_file(file);
  if (text.size() != kDigits + 1 || text.find_first_not_of("0123456789abcdef") != kDigits || text.back() != '\n') {
    throw ErrorException({.code = ErrorCode::kParse, .message = "not the id of a training", .shard = file});
  }
  text.pop_back();
  return text;
}

}  // namespace millrace
