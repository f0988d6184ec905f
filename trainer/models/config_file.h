#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/trainer/models/pretrained_options.h"
#include "millrace/trainer/tensor/feed_forward.h"

namespace millrace {

/// A model's `config.json` in Hugging Face's layout. Its messages name file and field. Remembers which fields were
/// asked for; one thread at a time.
class ConfigFile {
 public:
  /// Throws `kIo` when it cannot be opened, `kParse` when it is no JSON object.
  explicit ConfigFile(const std::string& directory);

  /// Throws `kInvalidArgument` unless the field is one of `known`, which it then returns.
  std::string need_one_of(const char* name, std::span<const std::string_view> known) const;
  /// Throws `kInvalidArgument` unless the field is `expected`, missing or null.
  void need(const char* name, const nlohmann::json& expected) const;
  /// Leaves `value` as it is when the field is missing or null. Throws `kParse` for another type, and for a whole
  /// number that T does not hold.
  template <typename T>
  void read(const char* name, T& value) const {
    try {
      known_.insert(name);
      const auto found = json_.find(name);
      if (found == json_.end() || found->is_null()) return;
      if constexpr (std::integral<T> && !std::same_as<T, bool>) need_whole<T>(name, *found);
      found->get_to(value);
    } catch (const nlohmann::json::exception& error) {
      refuse_type(name, error.what());
    }
  }
  /// The same of a name that `activation_named` knows; throws `kInvalidArgument` for another.
  void read_activation(const char* name, Activation& value) const;
  /// Throws `kInvalidArgument` naming the fields that nobody asked for, that have another value than null, false and an
  /// empty one, and that are not known to change nothing of what the model computes: those about saving, generating
  /// and the tasks of heads that are not here, and names with `_` in front.
  void refuse_unknown(const PretrainedOptions& options) const;
  /// Throws `kInvalidArgument`.
  [[noreturn]] void refuse(const std::string& message) const;

  /// Calls `config.check()` so that its message names the file too.
  template <typename T>
  void check(const T& config) const {
    try {
      config.check();
    } catch (const ErrorException& error) {
      refuse(error.error().message);
    }
  }

 private:
  template <typename T>
  void need_whole(const char* name, const nlohmann::json& number) const {
    const bool held = number.is_number_unsigned()
                          ? std::in_range<T>(number.get<uint64_t>())
                          : number.is_number_integer() && std::in_range<T>(number.get<int64_t>());
    if (!held)
      refuse_type(name, shown_json(number) + " is no whole number of " + std::to_string(8 * sizeof(T)) + " bits");
  }
  [[noreturn]] void refuse_type(const char* name, const std::string& why) const;

  std::string path_;
  nlohmann::json json_;
  mutable std::set<std::string, std::less<>> known_;
};

/// `directory/name`.
std::string model_file(const std::string& directory, const char* name);

}  // namespace millrace
