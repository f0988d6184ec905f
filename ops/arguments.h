// The arguments of a method of Dataset as texts and as one value, from the description of their struct (description.h).
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/text/lower_case.h"
#include "millrace/ops/description.h"

namespace millrace {

/// A function of a user, identified by its `name`. `kKind`: what it is called in messages.
template <typename T>
concept UserFunction = requires(const T& function) {
  T::kKind;
  function.name;
};

/// Throws `kInvalidArgument`.
[[noreturn]] void refuse_argument(const std::string& message);

/// How a type that has no description is written: as a `Type`, `to` which it is made, and `from` which it comes back;
/// that throws `kInvalidArgument`.
template <typename T>
struct WrittenAs;
template <typename T>
concept Rewritten = requires {
  typename WrittenAs<T>::Type;
};

/// The field of an alternative of a variant.
template <typename T>
constexpr std::string_view alternative_name() {
  if constexpr (std::is_same_v<T, int64_t>) return "integer";
  if constexpr (std::is_same_v<T, double>) return "real";
  if constexpr (std::is_same_v<T, std::string>) return "text";
  if constexpr (requires { T::kAlternative; }) return T::kAlternative;
}

namespace description {

// Whether T is a std::optional, a std::vector …
template <template <typename...> typename Of, typename T>
constexpr bool kIsA = false;
template <template <typename...> typename Of, typename... T>
constexpr bool kIsA<Of, Of<T...>> = true;

}  // namespace description

/// A field as the method or the operator takes it: the value of an optional, which must have one, or of a shared
/// pointer.
template <typename T>
decltype(auto) unwrapped(const T& value) {
  if constexpr (description::kIsA<std::optional, T> || description::kIsA<std::shared_ptr, T>) {
    return (*value);
  } else {
    return (value);
  }
}

/// An entry of a map by feature: a struct of the feature and what belongs to it.
template <typename T>
struct OfFeature;
template <typename T>
struct WrittenAs<std::map<std::string, T>> {
  using Type = std::vector<OfFeature<T>>;
  static Type to(const std::map<std::string, T>& map) {
    Type entries;
    for (const auto& [feature, of] : map) entries.push_back({feature, of});
    return entries;
  }
  static std::map<std::string, T> from(const Type& entries) {
    std::map<std::string, T> map;
    for (const auto& [feature, of] : entries) {
      if (!map.emplace(feature, of).second) refuse_argument("'" + feature + "' is there twice");
    }
    return map;
  }
};

namespace description {

// Parts of texts: each value has one of its own.
std::string quoted(std::string_view text);
std::string text_of(double number);
std::string text_of(const std::vector<bool>& values);

}  // namespace description

/// `seed=42, spans={stop=0.2}`: the fields with this effect, or with any. `all`: also options that have their default.
/// `within`: the effect of what the struct is a field of.
template <Described T>
std::string text_of_fields(const T& value, std::optional<Effect> wanted, bool all, Effect within = Effect::kStream);

/// Of a value. `all`: also options in it that have their default; `text_of_argument(value, all)` where there is one.
template <typename T>
std::string text_of_value(const T& value, bool all) {
  if constexpr (requires { text_of_argument(value, all); }) {
    return text_of_argument(value, all);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return description::quoted(value);
  } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
    return description::text_of(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return description::text_of(static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, char>) {
    return description::quoted({&value, 1});
  } else if constexpr (std::is_integral_v<T>) {
    return fmt::to_string(value);
  } else if constexpr (NamedEnum<T>) {
    return lower_case(names_of(static_cast<const T*>(nullptr)).values[static_cast<size_t>(value)]);
  } else if constexpr (UserFunction<T>) {
    return description::quoted(value.name);
  } else if constexpr (description::kIsA<std::optional, T> || description::kIsA<std::shared_ptr, T>) {
    return value ? text_of_value(*value, all) : "none";
  } else if constexpr (description::kIsA<std::vector, T>) {
    std::string text;
    for (const auto& one : value) text.append(text.empty() ? "" : ", ") += text_of_value(one, all);
    return '[' + text + ']';
  } else if constexpr (description::kIsA<std::variant, T>) {
    return std::visit(
        [all]<typename Alternative>(const Alternative& one) {
          const std::string text = text_of_value(one, all);
          return Described<Alternative> ? std::string(alternative_name<Alternative>()) + text : text;
        },
        value);
  } else if constexpr (Described<T>) {
    return '{' + text_of_fields(value, std::nullopt, all) + '}';
  } else {
    return text_of_value(WrittenAs<T>::to(value), all);
  }
}

template <Described T>
std::string text_of_fields(const T& value, std::optional<Effect> wanted, bool all, Effect within) {
  std::string text;
  const auto add = [&text](std::string_view name, const std::string& of) {
    if (!text.empty()) text += ", ";
    text.append(name) += of;
  };
  const T defaults{};
  description_of<T>().for_each([&]<typename F>(F) {
    using Value = typename F::Value;
    constexpr auto kEffect = F::kEffect;
    const Effect effect = std::max(within, kEffect);
    if constexpr (F::kForm == Form::kInlined || Described<Value>) {
      std::string nested;
      if constexpr (Described<Value>) {
        nested = text_of_fields(F::of(value), wanted, all, effect);
      } else {
        nested = text_of_fields(WrittenAs<Value>::to(F::of(value)), wanted, all, effect);
      }
      if (nested.empty()) return;
      F::kForm == Form::kInlined ? add("", nested) : add(F::kName, fmt::format("={{{}}}", nested));
    } else if (!wanted || effect == *wanted) {
      const std::string of = text_of_value(F::of(value), all);
      if (all || F::kRequired || of != text_of_value(F::of(defaults), all)) add(F::kName, '=' + of);
    }
  });
  return text;
}

/// Whether one of the fields is a function of a user for which `is_wanted(name)`.
template <Described T, typename IsWanted>
bool has_function(const T& value, const IsWanted& is_wanted) {
  bool found = false;
  description_of<T>().for_each([&]<typename F>(F) {
    const auto look = [&]<typename Value>(const Value& of) {
      if constexpr (UserFunction<Value>) found = found || is_wanted(of.name);
    };
    if constexpr (F::kForm == Form::kInlined && Rewritten<typename F::Value>) {
      found = found || has_function(WrittenAs<typename F::Value>::to(F::of(value)), is_wanted);
    } else if constexpr (description::kIsA<std::optional, typename F::Value>) {
      if (F::of(value)) look(*F::of(value));
    } else {
      look(F::of(value));
    }
  });
  return found;
}

/// The first option of this name that is a bool, wherever it stands.
template <typename T>
std::optional<bool> flag_in(const T& value, std::string_view name) {
  std::optional<bool> found;
  if constexpr (description::kIsA<std::variant, T>) {
    found = std::visit([name](const auto& one) { return flag_in(one, name); }, value);
  } else if constexpr (Described<T>) {
    description_of<T>().for_each([&]<typename F>(F) {
      if (found) return;
      if constexpr (std::is_same_v<typename F::Value, bool>) {
        if (F::kName == name) found = F::of(value);
      } else {
        found = flag_in(F::of(value), name);
      }
    });
  }
  return found;
}

template <typename T>
struct ArgumentsOf;

/// The arguments with which a method of Dataset was called. Immutable.
class Arguments {
 public:
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  virtual ~Arguments() = default;

  /// The method as definitions name it: `flat_map_inputs`.
  virtual std::string_view method() const = 0;
  /// See text_of_fields.
  virtual std::string text(Effect wanted, bool all) const = 0;
  /// See flag_in.
  virtual std::optional<bool> flag(std::string_view name) const = 0;
  /// Whether one of them is a function of a user; one without a name, which nothing tells from another one.
  virtual bool calls_function() const = 0;
  virtual bool has_unnamed_function() const = 0;

  /// What they are, if they are of this type; or null.
  template <typename T>
  const T* as() const {
    return is_ == &ArgumentsOf<T>::kType ? &static_cast<const ArgumentsOf<T>&>(*this).value : nullptr;
  }

 protected:
  explicit Arguments(const char* type) : is_(type) {}

 private:
  const char* is_;
};

/// Those of one method: a struct with a description.
template <typename T>
struct ArgumentsOf final : Arguments {
  static constexpr char kType = 0;
  explicit ArgumentsOf(T arguments) : Arguments(&kType), value(std::move(arguments)) {}
  std::string_view method() const override { return description_of<T>().name; }
  std::string text(Effect wanted, bool all) const override { return text_of_fields(value, wanted, all); }
  std::optional<bool> flag(std::string_view name) const override { return flag_in(value, name); }
  bool calls_function() const override {
    return has_function(value, [](std::string_view) { return true; });
  }
  bool has_unnamed_function() const override {
    return has_function(value, [](std::string_view name) { return name.empty(); });
  }

  T value = {};
};

}  // namespace millrace
