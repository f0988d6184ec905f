#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/formats/records/record_splitter.h"

namespace millrace {

/// A splitter of text files, whose beginning may say that nothing in them can be read as it should: another encoding
/// than UTF-8, or another header than the first file of a source has, by which whoever reads the records knows what
/// stands where.
class TextSplitter : public RecordSplitter {
 public:
  /// Whether what `cut` refused last is the whole file. It is not to be passed.
  bool refuses_file() const { return refuses_file_; }
  /// What gives the header of a file as its first record; null where the files have none. Default: null.
  [[nodiscard]] virtual std::unique_ptr<RecordSplitter> of_header() const { return nullptr; }
  /// The header that the file must have, which is that of the file `path`; before the first call of `cut`. Default:
  /// nothing.
  virtual void expect_header(std::string_view /*header*/, const std::string& /*path*/) {}

 protected:
  Error refuse_file(std::string message) {
    refuses_file_ = true;
    return {.code = ErrorCode::kParse, .message = std::move(message)};
  }

 private:
  bool refuses_file_ = false;
};

}  // namespace millrace
