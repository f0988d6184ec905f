#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// A file of a folder in a bucket.
struct FolderFile {
  std::string name = {};    ///< below the folder: `train/part-0.tfrecord`, UTF-8
  std::string object = {};  ///< its key below the folder: `20261129T024500Z-5d41402a/train/part-0.tfrecord`
  uint64_t size = 0;        ///< bytes
  uint32_t crc = 0;         ///< CRC-32C of them
};

/// What is in a folder of a bucket: the content of its object COMMIT. Object stores rename nothing, so the files of a
/// folder lie in one of theirs, below an id, where nobody looks, until COMMIT names them. To write COMMIT is to
/// exchange the whole folder.
struct FolderManifest {
  static constexpr const char* kObject = "COMMIT";
  static constexpr const char* kLock = "LOCK";  ///< beside it, of a folder that one process at a time writes
  /// Of COMMIT: a longer one is neither written nor read. Lines of some 100 bytes are those of ten million files.
  static constexpr uint64_t kMostBytes = 1 << 30;

  std::string id = {};                 ///< of the writer that committed it
  std::vector<FolderFile> files = {};  ///< in the order of their names
  [[nodiscard]] const FolderFile* find(std::string_view name) const;
  /// JSON. The object of a file is named where it is another than `ID/NAME`.
  [[nodiscard]] std::string to_text() const;
};

/// Reads COMMIT. Nothing where it is no manifest: an object of somebody else's with that name. Throws `kParse` for a
/// damaged one, and for one of a later version.
[[nodiscard]] std::optional<FolderManifest> parse_folder_manifest(std::string_view text);

/// Whether a name can be that of a file below a folder: one that leads nowhere else.
[[nodiscard]] bool is_name_below(std::string_view name);

/// An id that no other writer has, and that says when it was made: `20261129T024500Z-5d41402a`.
[[nodiscard]] std::string make_folder_id();
/// When an id was made, by the clock of its writer; nothing where it is none.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> time_of_folder_id(std::string_view id);

}  // namespace millrace
