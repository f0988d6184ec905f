// Moves described structs (ops/description.h) to and from messages that have their fields by name.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/message.h>

#include "millrace/formats/utf8.h"
#include "millrace/ops/arguments.h"
#include "millrace/pipeline/definition/function_registry.h"

namespace millrace::definition {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The field of this name. A test compares the messages with the descriptions.
inline const FieldDescriptor* field_of(const Message& message, std::string_view name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(name));
  if (field == nullptr) {
    throw std::logic_error(
        fmt::format("{} has no field '{}': pipeline_def.proto is older than the descriptions, "
                    "docs/new_operator.md says how it is made anew",
                    message.GetDescriptor()->name(), name));
  }
  return field;
}

inline bool is_text(const std::string& value) { return is_valid_utf8(value); }
inline bool is_text(const std::vector<std::string>& values) {
  return std::all_of(values.begin(), values.end(), is_valid_utf8);
}
template <typename T>
constexpr bool kIsText = std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>>;
/// What goes into a field as it is.
template <typename T>
constexpr bool kIsScalar = std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || NamedEnum<T>;

/// Writes what a struct has. What an option has by default is written too, so that a definition keeps its meaning
/// should a default change. A function of yours that is not registered is `kInvalidArgument`.
class FieldWriter {
 public:
  explicit FieldWriter(Message& message) : message_(message) {}

  template <Described T>
  void write(const T& value) {
    description_of<T>().for_each([&]<typename F>(F) {
      if constexpr (F::kForm != Form::kInlined) {
        put<F::kForm>(F::kName, F::of(value));
      } else if constexpr (Described<typename F::Value>) {
        write(F::of(value));
      } else {
        write(WrittenAs<typename F::Value>::to(F::of(value)));
      }
    });
  }

 private:
  template <Form kForm, typename T>
  void put(std::string_view name, const T& value) {
    if constexpr (description::kIsOptional<T> || description::kIsShared<T>) {
      if (value) put<kForm>(name, *value);
    } else if constexpr (UserFunction<T>) {
      check_registered(value);
      set(field_of(message_, name), value.name);
    } else if constexpr (Rewritten<T>) {
      put<kForm>(name, WrittenAs<T>::to(value));
    } else if constexpr (kForm == Form::kShape) {
      FieldWriter(nested(name)).put<Form::kPlain>("sizes", value);
    } else if constexpr (kIsScalar<T> || description::kIsVector<T>) {
      std::string field(name);
      if constexpr (kForm == Form::kBytes && kIsText<T>) field += is_text(value) ? "" : "_bytes";
      set(field_of(message_, field), value);
    } else {
      FieldWriter(nested(name)).put_message(value);
    }
  }
  template <typename T>
  void put_message(const T& value) {
    if constexpr (description::kIsVariant<T>) {
      std::visit([&]<typename One>(const One& one) { put<Form::kBytes>(alternative_name<One>(), one); }, value);
    } else {
      write(value);
    }
  }
  // The text forms of messages would lose what is no UTF-8.
  static void check_text(const FieldDescriptor* field, const std::string& value) {
    if (field->type() == FieldDescriptor::TYPE_BYTES || is_text(value)) return;
    refuse_argument(fmt::format("'{}' is no UTF-8: '{}'", field->name(), printable(value)));
  }
  Message& nested(std::string_view name) {
    return *message_.GetReflection()->MutableMessage(&message_, field_of(message_, name));
  }

  template <typename T>
  void set(const FieldDescriptor* field, const T& value) {
    const auto* reflection = message_.GetReflection();
    if constexpr (std::is_same_v<T, bool>) {
      reflection->SetBool(&message_, field, value);
    } else if constexpr (std::is_enum_v<T>) {
      reflection->SetEnumValue(&message_, field, static_cast<int>(value) + 1);  // 0 stands for none
    } else if constexpr (std::is_same_v<T, std::string>) {
      check_text(field, value);
      reflection->SetString(&message_, field, value);
    } else if constexpr (std::is_floating_point_v<T>) {
      reflection->SetDouble(&message_, field, value);
    } else if constexpr (std::is_unsigned_v<T>) {
      reflection->SetUInt64(&message_, field, value);
    } else if constexpr (std::is_integral_v<T>) {
      reflection->SetInt64(&message_, field, value);
    } else {
      for (const auto& one : value) add(field, one);
    }
  }
  template <typename T>
  void add(const FieldDescriptor* field, const T& value) {
    const auto* reflection = message_.GetReflection();
    if constexpr (std::is_same_v<T, std::string>) {
      check_text(field, value);
      reflection->AddString(&message_, field, value);
    } else if constexpr (std::is_same_v<T, float>) {
      reflection->AddFloat(&message_, field, value);
    } else if constexpr (std::is_floating_point_v<T>) {
      reflection->AddDouble(&message_, field, value);
    } else if constexpr (std::is_unsigned_v<T>) {
      reflection->AddUInt64(&message_, field, value);
    } else if constexpr (std::is_integral_v<T>) {
      reflection->AddInt64(&message_, field, value);
    } else if constexpr (Rewritten<T>) {
      FieldWriter(*reflection->AddMessage(&message_, field)).write(WrittenAs<T>::to(value));
    } else {
      FieldWriter(*reflection->AddMessage(&message_, field)).write(value);
    }
  }

  Message& message_;
};

/// Reads a struct. What is missing and has no default is `kInvalidArgument`.
class FieldReader {
 public:
  explicit FieldReader(const Message& message) : message_(message) {}

  template <Described T>
  void read(T& value) const {
    description_of<T>().for_each([&]<typename F>(F) {
      using Value = typename F::Value;
      if constexpr (F::kForm != Form::kInlined) {
        if (!get<F::kForm>(F::kName, F::of(value)) && F::kRequired && !description::kIsVector<Value>) {
          refuse_argument(fmt::format("'{}' is missing", F::kName));
        }
      } else if constexpr (Described<Value>) {
        read(F::of(value));
      } else {
        F::of(value) = from<Value>();
      }
    });
  }

 private:
  template <typename T>
  T from() const {
    typename WrittenAs<T>::Type written{};
    read(written);
    return WrittenAs<T>::from(written);
  }

  // Whether it was there.
  template <Form kForm, typename T>
  bool get(std::string_view name, T& value) const {
    if constexpr (description::kIsOptional<T>) {
      using Value = typename T::value_type;
      return get_new<kForm, Value>(name, [&value](Value&& read) { value = std::move(read); });
    } else if constexpr (description::kIsShared<T>) {
      std::remove_const_t<typename T::element_type> read{};
      const bool is_there = get<kForm>(name, read);
      value = std::make_shared<typename T::element_type>(std::move(read));
      return is_there;
    } else if constexpr (UserFunction<T> || Rewritten<T>) {
      return get_new<kForm, T>(name, [&value](T&& read) { value = std::move(read); });
    } else if constexpr (kForm == Form::kShape) {
      const FieldDescriptor* field = field_of(message_, name);
      if (!is_there(field)) return false;
      value.clear();
      FieldReader(message_.GetReflection()->GetMessage(message_, field)).get<Form::kPlain>("sizes", value);
      return true;
    } else {
      const FieldDescriptor* field = field_of(message_, name);
      if constexpr (kForm == Form::kBytes && kIsText<T>) field = text_or_bytes(field);
      if (!is_there(field)) return false;
      if constexpr (kIsScalar<T> || description::kIsVector<T>) {
        set(field, value);
      } else {
        FieldReader(message_.GetReflection()->GetMessage(message_, field)).get_message(value);
      }
      return true;
    }
  }
  // The same for a type that need not have a default.
  template <Form kForm, typename T, typename Take>
  bool get_new(std::string_view name, const Take& take) const {
    if constexpr (UserFunction<T>) {
      std::string function;
      if (!get<kForm>(name, function)) return false;
      take(registered_function<T>(function));
    } else if constexpr (Rewritten<T>) {
      typename WrittenAs<T>::Type written{};
      if (!get<kForm>(name, written)) return false;
      take(WrittenAs<T>::from(written));
    } else {
      T value{};
      if (!get<kForm>(name, value)) return false;
      take(std::move(value));
    }
    return true;
  }
  template <typename T>
  void get_message(T& value) const {
    if constexpr (description::kIsVariant<T>) {
      get_alternative(value);
    } else {
      read(value);
    }
  }
  template <typename... T>
  void get_alternative(std::variant<T...>& value) const {
    const auto take = [&]<typename One>(One alternative) {
      if (!get<Form::kBytes>(alternative_name<One>(), alternative)) return false;
      value = std::move(alternative);
      return true;
    };
    if (!(take(T{}) || ...)) {
      refuse_argument(fmt::format("there is none of '{}'", fmt::join(std::array{alternative_name<T>()...}, "', '")));
    }
  }

  bool is_there(const FieldDescriptor* field) const {
    const auto* reflection = message_.GetReflection();
    return field->is_repeated() ? reflection->FieldSize(message_, field) > 0 : reflection->HasField(message_, field);
  }
  const FieldDescriptor* text_or_bytes(const FieldDescriptor* text) const {
    const FieldDescriptor* bytes = field_of(message_, text->name() + "_bytes");
    if (!is_there(bytes)) return text;
    if (is_there(text)) refuse_argument(fmt::format("there are both '{}' and '{}'", text->name(), bytes->name()));
    return bytes;
  }

  template <typename T>
  void set(const FieldDescriptor* field, T& value) const {
    const auto* reflection = message_.GetReflection();
    if constexpr (std::is_same_v<T, bool>) {
      value = reflection->GetBool(message_, field);
    } else if constexpr (std::is_enum_v<T>) {
      const int number = reflection->GetEnumValue(message_, field);
      if (number == 0 || field->enum_type()->FindValueByNumber(number) == nullptr) {
        refuse_argument(fmt::format("'{}' is not one of the names of {}", field->name(),
                                    field->enum_type()->containing_type()->name()));
      }
      value = static_cast<T>(number - 1);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = reflection->GetString(message_, field);
    } else if constexpr (std::is_floating_point_v<T>) {
      value = reflection->GetDouble(message_, field);
    } else if constexpr (std::is_unsigned_v<T>) {
      value = reflection->GetUInt64(message_, field);
    } else if constexpr (std::is_integral_v<T>) {
      value = reflection->GetInt64(message_, field);
    } else {
      value.clear();
      for (int i = 0; i < reflection->FieldSize(message_, field); ++i) {
        value.push_back(repeated<typename T::value_type>(field, i));
      }
    }
  }
  template <typename T>
  T repeated(const FieldDescriptor* field, int i) const {
    const auto* reflection = message_.GetReflection();
    if constexpr (std::is_same_v<T, std::string>) {
      return reflection->GetRepeatedString(message_, field, i);
    } else if constexpr (std::is_same_v<T, float>) {
      return reflection->GetRepeatedFloat(message_, field, i);
    } else if constexpr (std::is_floating_point_v<T>) {
      return reflection->GetRepeatedDouble(message_, field, i);
    } else if constexpr (std::is_unsigned_v<T>) {
      return reflection->GetRepeatedUInt64(message_, field, i);
    } else if constexpr (std::is_integral_v<T>) {
      return reflection->GetRepeatedInt64(message_, field, i);
    } else if constexpr (Rewritten<T>) {
      return FieldReader(reflection->GetRepeatedMessage(message_, field, i)).from<T>();
    } else {
      T value{};
      FieldReader(reflection->GetRepeatedMessage(message_, field, i)).read(value);
      return value;
    }
  }

  const Message& message_;
};

}  // namespace millrace::definition
