#pragma once

#include <functional>
#include <string>

namespace millrace {

/// Throws `kInvalidArgument` naming the file where a checkpoint has another description of its model (config.json,
/// tokenizer, ...) than `save_description` writes. JSON files count, by the members that both have: an earlier version
/// may have written others.
void check_same_description(const std::string& checkpoint,
                            const std::function<void(const std::string& directory)>& save_description);

}  // namespace millrace
