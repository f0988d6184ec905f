// One description for what an operator is called with. Beside each struct of options, and each struct of all arguments
// of a method of Dataset, stands one list of its fields; what explain() prints, what states and folders of elements are
// compared by, and how definitions are read and written (pipeline/definition) come from it:
//
//     struct ShuffleOptions {
//       uint64_t seed = 0;
//       bool reshuffle_each_iteration = true;
//
//       static constexpr auto fields() {
//         using O = ShuffleOptions;
//         return describe<O>("ShuffleOptions", field::stream<&O::seed>, field::stream<&O::reshuffle_each_iteration>);
//       }
//     };
//
// A member that the list leaves out does not compile. docs/decisions/one_description_of_options.md says why it is so.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace millrace {

/// What another value of a field changes.
enum class Effect : uint8_t {
  kStream,  ///< the elements: a state of a pipeline, and a folder of elements, belong to one value
  kDamage,  ///< what becomes of damaged input: a folder of elements belongs to one value, a state to all
  kSpeed,   ///< neither
};

/// How a field stands in texts and definitions.
enum class Form : uint8_t {
  kPlain,    ///< as its type says
  kBytes,    ///< bytes that need not be UTF-8, which definitions write to the field `NAME_bytes` then
  kShape,    ///< a vector of sizes as a message of its own, so that none is not the same as one without dimensions
  kInlined,  ///< its fields stand among those of the struct
};

namespace description {

// `count` of `&SkipArguments::count`.
template <auto kMember>
constexpr std::string_view name_of_member() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("kMember = "));
  text = text.substr(0, text.find_first_of(";]"));
  while (text.ends_with(')')) text.remove_suffix(1);
  return text.substr(text.rfind(':') + 1);
}

template <typename S, typename V>
S struct_of(V S::*);
template <typename S, typename V>
V value_of(V S::*);

// Does not compile for another number of members than kCount, and the compiler says how many there are.
template <size_t kCount, typename S>
constexpr auto has_members([[maybe_unused]] const S& of) {
  static_assert(kCount <= 16, "has_members goes up to 16 members");
  // clang-format off
  if constexpr (kCount == 0) { static_assert(std::is_empty_v<S>, "a member is not described"); }
  if constexpr (kCount == 1) { [[maybe_unused]] const auto& [a] = of; }
  if constexpr (kCount == 2) { [[maybe_unused]] const auto& [a, b] = of; }
  if constexpr (kCount == 3) { [[maybe_unused]] const auto& [a, b, c] = of; }
  if constexpr (kCount == 4) { [[maybe_unused]] const auto& [a, b, c, d] = of; }
  if constexpr (kCount == 5) { [[maybe_unused]] const auto& [a, b, c, d, e] = of; }
  if constexpr (kCount == 6) { [[maybe_unused]] const auto& [a, b, c, d, e, f] = of; }
  if constexpr (kCount == 7) { [[maybe_unused]] const auto& [a, b, c, d, e, f, g] = of; }
  if constexpr (kCount == 8) { [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h] = of; }
  if constexpr (kCount == 9) { [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i] = of; }
  if constexpr (kCount == 10) { [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i, j] = of; }
  if constexpr (kCount == 11) { [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i, j, k] = of; }
  if constexpr (kCount == 12) { [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = of; }
  if constexpr (kCount == 13) { [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = of; }
  if constexpr (kCount == 14) { [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = of; }
  if constexpr (kCount == 15) { [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = of; }
  if constexpr (kCount == 16) { [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = of; }
  // clang-format on
  return std::true_type();
}

template <typename... Fields>
constexpr bool are_distinct() {
  const std::array<std::string_view, sizeof...(Fields) + 1> names{Fields::kName...};
  for (size_t i = 0; i < sizeof...(Fields); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (names[i] == names[k]) return false;
    }
  }
  return true;
}

}  // namespace description

/// One field of a struct, by its member, whose name is its name.
template <auto kMember, Effect kOf, bool kNeeded = false, Form kAs = Form::kPlain>
struct Field {
  using Struct = decltype(description::struct_of(kMember));
  using Value = decltype(description::value_of(kMember));
  static constexpr std::string_view kName = description::name_of_member<kMember>();
  static constexpr Effect kEffect = kOf;
  static constexpr bool kRequired = kNeeded;
  static constexpr Form kForm = kAs;

  static constexpr const Value& of(const Struct& all) { return all.*kMember; }
  static constexpr Value& of(Struct& all) { return all.*kMember; }

  /// The same without a default.
  constexpr auto required() const { return Field<kMember, kOf, true, kAs>(); }
  constexpr auto as_bytes() const { return Field<kMember, kOf, kNeeded, Form::kBytes>(); }
  constexpr auto as_shape() const { return Field<kMember, kOf, kNeeded, Form::kShape>(); }
};

namespace field {

/// An option that decides the stream; of what is done about damage; of speed.
template <auto kMember>
inline constexpr Field<kMember, Effect::kStream> stream;
template <auto kMember>
inline constexpr Field<kMember, Effect::kDamage> damage;
template <auto kMember>
inline constexpr Field<kMember, Effect::kSpeed> speed;
/// A parameter without a default, of the stream.
template <auto kMember>
inline constexpr Field<kMember, Effect::kStream, true> required;
/// A struct whose fields stand among those of the struct that has it.
template <auto kMember>
inline constexpr Field<kMember, Effect::kStream, false, Form::kInlined> inlined;

}  // namespace field

/// All fields of a struct, and the name of its message in definitions; of arguments, that of the step.
template <typename S, typename... Fields>
struct Description {
  std::string_view name = {};

  /// Calls `visit(Field{})` for each.
  template <typename Visit>
  static constexpr void for_each(Visit&& visit) {
    (visit(Fields()), ...);
  }
  /// Calls `function` with the values of all.
  template <typename Function>
  static constexpr decltype(auto) apply(const S& values, Function&& function) {
    return function(Fields::of(values)...);
  }
};

template <typename S, typename... Fields>
constexpr Description<S, Fields...> describe(std::string_view name, Fields...) {
  static_assert((std::is_same_v<S, typename Fields::Struct> && ...), "a field of another struct");
  static_assert(description::are_distinct<Fields...>(), "a field is described twice");
  static_assert(decltype(description::has_members<sizeof...(Fields)>(std::declval<const S&>()))::value);
  return {name};
}

template <typename T>
concept Described = requires {
  T::fields();
}
|| requires(const T* of) { fields_of(of); };

/// The description of a struct: its `fields()`, or `fields_of(const T*)` where it is one of formats/.
template <Described T>
constexpr auto description_of() {
  if constexpr (requires { T::fields(); }) {
    return T::fields();
  } else {
    return fields_of(static_cast<const T*>(nullptr));
  }
}

/// The names of the values of an enum, from 0 on, as definitions have them.
template <size_t kCount>
struct EnumNames {
  std::string_view type = {};
  std::array<std::string_view, kCount> values = {};
};
template <typename... Names>
constexpr EnumNames<sizeof...(Names)> enum_names(std::string_view type, Names... values) {
  return {type, {values...}};
}
template <typename T>
concept NamedEnum = std::is_enum_v<T> && requires(const T* of) {
  names_of(of);
};

}  // namespace millrace
