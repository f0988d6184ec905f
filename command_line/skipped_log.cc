#include "millrace/command_line/skipped_log.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/json/names.h"

namespace millrace {

SkippedLog::SkippedLog(std::string path, int64_t num_regions) : path_(std::move(path)), num_regions_(num_regions) {
  int64_t lines = 0;
  uint64_t end = 0;  // of the lines to keep
  {
    std::ifstream stream(path_, std::ios::binary);
    for (std::string line; lines < num_regions && std::getline(stream, line) && !stream.eof(); ++lines) {
      end += line.size() + 1;
    }
  }
  if (lines < num_regions) {
    throw ErrorException({.code = ErrorCode::kState,
                          .message = fmt::format("the list of what was skipped has {} whole lines, the state counts {}",
                                                 lines, num_regions),
                          .shard = path_});
  }
  std::error_code code;
  if (num_regions > 0) {
    std::filesystem::resize_file(path_, end, code);
  } else {
    std::filesystem::remove(path_, code);
  }
  if (!code) return;
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("cannot cut the file: {}", code.message()), .shard = path_});
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
  if (!file_) file_.emplace(path_, GrowingFrom::kEnd);
  file_->write(line);
  ++num_regions_;
}

}  // namespace millrace
