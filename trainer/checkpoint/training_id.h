#pragma once

#include <optional>
#include <string>

namespace millrace {

/// A name for a training that no other one has: 32 hexadecimal digits, from the system's entropy. It stands in the
/// file `training.id` of each checkpoint and of each model that is kept, and tells whose they are; before the first
/// checkpoint also in their folder, if a model is kept; no result depends on
/// it. A training that goes on from a checkpoint keeps that one's. Throws `kIo` when the system gives none.
std::string new_training_id();

/// Writes `training.id` into a directory, one that is there is replaced. Throws `kIo` naming the file.
void write_training_id(const std::string& directory, const std::string& id);

/// Removes it, where it is there.
void remove_training_id(const std::string& directory) noexcept;

/// The id in a directory; nothing when it has none, as checkpoints of earlier versions. Throws `kIo` or `kParse` naming
/// the file.
std::optional<std::string> read_training_id(const std::string& directory);

}  // namespace millrace
