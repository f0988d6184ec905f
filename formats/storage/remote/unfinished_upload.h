#pragma once

#include <chrono>
#include <string>

namespace millrace {

/// Parts of an object that nobody has completed, and that are paid for: of a writer that writes still, or was killed.
struct UnfinishedUpload {
  std::string url = {};  ///< of the object
  std::string id = {};   ///< its number in the store
  std::chrono::system_clock::time_point begun = {};
};

}  // namespace millrace
