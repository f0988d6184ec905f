#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/storage/storage.h"

namespace millrace::test {

/// Files that are strings. Answers inside the call. Add all files before the first open.
class MemoryStorage final : public Storage {
 public:
  void add(std::string path, std::string content);
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override;

 private:
  std::map<std::string, std::shared_ptr<const std::string>> files_;
};

}  // namespace millrace::test
