#pragma once

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "millrace/formats/storage/storage.h"

namespace millrace::test {

/// Has memory for no file.
class FullStorage final : public Storage {
 public:
  void open(const std::string&, std::shared_ptr<OpenSink>) override { throw std::bad_alloc(); }
  [[nodiscard]] std::vector<std::string> glob(const std::string&) override { return {}; }
};

}  // namespace millrace::test
