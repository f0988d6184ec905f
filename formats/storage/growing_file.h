#pragma once

#include <string>

#include "millrace/formats/storage/local_output_file.h"

namespace millrace {

/// What becomes of a file that is there already.
enum class GrowingFrom {
  kEmpty,  ///< it is lost
  kEnd,    ///< it stays, and what is written comes after it, also where others write to it
};

/// A file that has its name from the start, for logs that are read while they grow.
class GrowingFile final : public LocalOutputFile {
 public:
  explicit GrowingFile(std::string path, GrowingFrom from = GrowingFrom::kEmpty);
  /// Keeps what was written.
  ~GrowingFile() override;

  void commit() override;

 private:
  void discard() noexcept override;
};

}  // namespace millrace
