// The text of pipeline_def.proto, made of the descriptions.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "millrace/ops/arguments.h"
#include "millrace/ops/batch/padding.h"

namespace millrace::definition_proto_test {

/// One of whose fields there may be.
template <typename T>
inline constexpr bool kOneOf = false;
template <>
inline constexpr bool kOneOf<WrittenLength> = true;

/// Collects messages: those of steps, and the ones that are in them.
class ProtoText {
 public:
  /// Adds the step of a method.
  template <Described T>
  void add_step() {
    const std::string name(description_of<T>().name);
    steps_.push_back(fmt::format("{} {}", message<T>(camel_case(name)), name));
  }
  std::string text() const;

 private:
  static std::string camel_case(std::string_view name);

  // The lines of a message that is begun.
  struct Message {
    std::string lines;
    int number = 0;

    void add(const std::string& type, std::string_view name, std::string_view before) {
      lines += fmt::format("  {}{} {} = {};\n", before, type, name, ++number);
    }
  };

  // The name of the message of a struct, which is there from then on.
  template <Described T>
  std::string message(const std::string& name = std::string(description_of<T>().name)) {
    if (!names_.insert(name).second) return name;
    Message of;
    add_fields<T>(of);
    finish(name, kOneOf<T> ? fmt::format("  oneof one {{\n{}  }}\n", of.lines) : of.lines);
    return name;
  }
  template <Described T>
  void add_fields(Message& of) {
    description_of<T>().for_each([&]<typename F>(F) {
      using Value = typename F::Value;
      if constexpr (F::kForm != Form::kInlined) {
        const std::string_view before = kOneOf<T> ? "  " : is_repeated<F::kForm, Value>() ? "repeated " : "optional ";
        of.add(type<F::kForm, Value>(), F::kName, before);
        if constexpr (F::kForm == Form::kBytes) of.add("bytes", std::string(F::kName) + "_bytes", before);
      } else if constexpr (Described<Value>) {
        add_fields<Value>(of);
      } else {
        add_fields<typename WrittenAs<Value>::Type>(of);
      }
    });
  }

  template <Form kForm, typename T>
  static constexpr bool is_repeated() {
    if constexpr (Rewritten<T>) {
      return is_repeated<kForm, typename WrittenAs<T>::Type>();
    } else if constexpr (description::kIsA<std::shared_ptr, T>) {
      return is_repeated<kForm, std::remove_const_t<typename T::element_type>>();
    } else {
      return description::kIsA<std::vector, T> && kForm != Form::kShape;
    }
  }
  template <Form kForm, typename T>
  std::string type() {
    if constexpr (UserFunction<T> || std::is_same_v<T, std::string>) {
      return "string";
    } else if constexpr (Rewritten<T>) {
      return type<kForm, typename WrittenAs<T>::Type>();
    } else if constexpr (description::kIsA<std::optional, T>) {
      return type<kForm, typename T::value_type>();
    } else if constexpr (description::kIsA<std::shared_ptr, T>) {
      return type<kForm, std::remove_const_t<typename T::element_type>>();
    } else if constexpr (kForm == Form::kShape) {
      if (names_.insert("Shape").second) finish("Shape", "  repeated int64 sizes = 1;\n");
      return "Shape";
    } else if constexpr (description::kIsA<std::vector, T>) {
      return type<Form::kPlain, typename T::value_type>();
    } else if constexpr (description::kIsA<std::variant, T>) {
      return variant(static_cast<const T*>(nullptr));
    } else if constexpr (NamedEnum<T>) {
      return named(names_of(static_cast<const T*>(nullptr)));
    } else if constexpr (Described<T>) {
      return message<T>();
    } else {
      static_assert(std::is_arithmetic_v<T>);
      if (std::is_same_v<T, bool>) return "bool";
      if (std::is_floating_point_v<T>) return std::is_same_v<T, float> ? "float" : "double";
      return std::is_unsigned_v<T> ? "uint64" : "int64";
    }
  }
  // Values of any type share a message.
  template <typename... T>
  std::string variant(const std::variant<T...>*) {
    Message of;
    const bool is_value = !(Described<T> || ...);
    std::string name = is_value ? "Value" : "Batches";
    if (!names_.insert(name).second) return name;
    if (is_value) {
      of.add("int64", "integer", "  ");
      of.add("double", "real", "  ");
      of.add("string", "text", "  ");
      of.add("bytes", "text_bytes", "  ");
    } else {
      (of.add(type<Form::kPlain, T>(), alternative_name<T>(), "  "), ...);
    }
    finish(name, fmt::format("  oneof one {{\n{}  }}\n", of.lines));
    return name;
  }
  template <size_t kCount>
  std::string named(const EnumNames<kCount>& names) {
    std::string name(names.type);
    if (names_.insert(name).second) {
      std::string lines = "  enum Name {\n    UNSPECIFIED = 0;\n";
      for (size_t i = 0; i < kCount; ++i) lines += fmt::format("    {} = {};\n", names.values[i], i + 1);
      finish(name, lines + "  }\n");
    }
    return name + ".Name";
  }
  void finish(const std::string& name, const std::string& lines) {
    messages_ +=
        lines.empty() ? fmt::format("\nmessage {} {{}}\n", name) : fmt::format("\nmessage {} {{\n{}}}\n", name, lines);
  }

  std::set<std::string> names_;
  std::string messages_;
  std::vector<std::string> steps_;
};

}  // namespace millrace::definition_proto_test
