#include "millrace/command_line/skipped_log.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "millrace/formats/json/names.h"

namespace millrace {

SkippedLog::SkippedLog(std::string path, int64_t num_regions) : path_(std::move(path)), num_regions_(num_regions) {
  int64_t lines = 0;
  off_t end = 0;  // of the lines to keep
  {
    std::ifstream stream(path_, std::ios::binary);
    for (std::string line; lines < num_regions && std::getline(stream, line) && !stream.eof(); ++lines) {
      end += static_cast<off_t>(line.size()) + 1;
    }
  }
  if (lines < num_regions) {
    throw ErrorException({.code = ErrorCode::kState,
                          .message = fmt::format("the list of what was skipped has {} whole lines, the state counts {}",
                                                 lines, num_regions),
                          .shard = path_});
  }
  std::error_code code;
  if (!std::filesystem::exists(path_, code)) return;
  if (num_regions == 0) {
    if (::unlink(path_.c_str()) != 0) fail("cannot remove it");
    return;
  }
  open(0);
  if (::ftruncate(descriptor_, end) != 0) fail("cannot cut the file");
}

SkippedLog::~SkippedLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SkippedLog::fail(const char* what) const {
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, std::strerror(errno)), .shard = path_});
}

void SkippedLog::open(int flags) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0666);
  if (descriptor_ < 0) fail("cannot open the file");
}

void SkippedLog::add(const SkippedRegion& region) {
  nlohmann::ordered_json json = {{"number", num_regions_}};
  put_name(json, "shard", region.shard);
  json["begin"] = region.begin;
  json["end"] = nullptr;
  json["first_record"] = region.first_record;
  json["records"] = nullptr;
  json["epoch"] = region.epoch;
  json["code"] = to_string(region.code);
  json["reason"] = region.reason;
  if (region.end_is_known) json["end"] = region.end;
  if (region.records) json["records"] = *region.records;
  const std::string line = json_line(json) + "\n";
  if (descriptor_ < 0) open(O_CREAT);
  const ssize_t count = ::write(descriptor_, line.data(), line.size());
  if (count < 0) fail("cannot write the file");
  if (static_cast<size_t>(count) != line.size()) {
    errno = ENOSPC;
    fail("cannot write a whole line");
  }
  ++num_regions_;
}

}  // namespace millrace
