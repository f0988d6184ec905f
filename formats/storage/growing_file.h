#pragma once

#include <string>

#include "millrace/formats/storage/output_file.h"

namespace millrace {

/// A file that has its name from the start, for logs that are read while they grow. What was there before is lost.
class GrowingFile final : public OutputFile {
 public:
  explicit GrowingFile(std::string path);
  /// Keeps what was written.
  ~GrowingFile() override;

  void commit() override;

 private:
  void discard() noexcept override;
};

}  // namespace millrace
