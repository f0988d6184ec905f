#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/remote_storage.h"

namespace millrace::test {

/// What `step` throws, as an error has it; nothing where it throws none.
template <typename Step>
[[nodiscard]] std::optional<Error> error_of_step(Step step) {
  try {
    step();
  } catch (const ErrorException& exception) {
    return exception.error();
  }
  return std::nullopt;
}

/// Writes pieces of several sizes.
inline void write_in_pieces(OutputFile& file, const std::string& content) {
  size_t piece = 1;
  for (size_t at = 0; at < content.size(); at += piece, piece = piece * 3 % 70'001) {
    file.write(std::string_view(content).substr(at, piece));
  }
}

/// Writes a whole object; why it could not be.
[[nodiscard]] inline std::optional<Error> write_object(RemoteStorage& storage, const std::string& url,
                                                       const std::string& content, const OutputOptions& options) {
  return error_of_step([&] {
    const std::unique_ptr<OutputFile> file = storage.create(url, options);
    write_in_pieces(*file, content);
    file->commit();
  });
}

}  // namespace millrace::test
