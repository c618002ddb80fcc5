//! `quantity` and `isQuantity`, arithmetic and comparison of quantities.

use std::any::Any;
use std::cmp::Ordering;

use evenkeel_types::quantity::{Format, Quantity};

use super::{operand, receiver, text};
use crate::{Error, Function, Opaque, Overload, Type, Value};

/// A quantity as a value.
#[derive(Debug)]
struct QuantityValue {
    quantity: Quantity,
    /// What the API server prints if the quantity was parsed; it keeps some forms as written.
    written: Option<Box<str>>,
}

pub(super) fn quantity_type() -> Type {
    Type::object("kubernetes.Quantity")
}

impl Opaque for QuantityValue {
    fn type_(&self) -> Type {
        quantity_type()
    }

    /// Upstream cannot compare with a quantity that was computed: it holds those through a pointer.
    fn equals(&self, other: &Value<'_>) -> Option<bool> {
        let other: &Self = other.downcast()?;
        other.written.is_some().then(|| self.quantity == other.quantity)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn text(&self) -> String {
        match &self.written {
            Some(text) => text.to_string(),
            None => self.quantity.to_string(),
        }
    }
}

pub(super) fn functions() -> Vec<Function> {
    let one = || [quantity_type()];
    let two = || [quantity_type(), quantity_type()];
    let with_int = || [quantity_type(), Type::Int];
    vec![
        Function::new("quantity").overload(Overload::global(
            "string_to_quantity",
            [Type::String],
            quantity_type(),
            parse,
        )),
        Function::new("isQuantity").overload(Overload::global(
            "is_quantity_string",
            [Type::String],
            Type::Bool,
            |values| match values {
                [value] => Ok(Value::Bool(Quantity::parse(text(value)?).is_ok())),
                _ => Err(Error::no_such_overload()),
            },
        )),
        Function::new("sign").overload(Overload::global(
            "quantity_sign",
            one(),
            Type::Int,
            |values| Ok(Value::Int(number(of(values)?.sign()))),
        )),
        Function::new("isGreaterThan").overload(Overload::member(
            "quantity_is_greater_than",
            two(),
            Type::Bool,
            |values| Ok(Value::Bool(order(values)? == Ordering::Greater)),
        )),
        Function::new("isLessThan").overload(Overload::member(
            "quantity_is_less_than",
            two(),
            Type::Bool,
            |values| Ok(Value::Bool(order(values)? == Ordering::Less)),
        )),
        Function::new("compareTo").overload(Overload::member(
            "quantity_compare_to",
            two(),
            Type::Int,
            |values| Ok(Value::Int(number(order(values)?))),
        )),
        Function::new("asApproximateFloat").overload(Overload::member(
            "quantity_get_float",
            one(),
            Type::Double,
            |values| Ok(Value::Double(of(values)?.as_approximate_f64())),
        )),
        Function::new("asInteger").overload(Overload::member(
            "quantity_get_int",
            one(),
            Type::Int,
            |values| {
                let integer = of(values)?.as_i64();
                integer.map(Value::Int).ok_or(Error::new("cannot convert value to integer"))
            },
        )),
        Function::new("isInteger").overload(Overload::member(
            "quantity_is_integer",
            one(),
            Type::Bool,
            |values| Ok(Value::Bool(of(values)?.as_i64().is_some())),
        )),
        Function::new("add")
            .overload(Overload::member("quantity_add", two(), quantity_type(), |values| {
                computed(values, Quantity::add)
            }))
            .overload(Overload::member(
                "quantity_add_int",
                with_int(),
                quantity_type(),
                |values| computed(values, Quantity::add),
            )),
        Function::new("sub")
            .overload(Overload::member("quantity_sub", two(), quantity_type(), |values| {
                computed(values, Quantity::sub)
            }))
            .overload(Overload::member(
                "quantity_sub_int",
                with_int(),
                quantity_type(),
                |values| computed(values, Quantity::sub),
            )),
    ]
}

fn parse<'a>(values: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [value] = values else { return Err(Error::no_such_overload()) };
    let text = text(value)?;
    let failed = |reason: evenkeel_types::quantity::ParseError| Error::new(reason.to_string());
    let quantity = Quantity::parse(text).map_err(failed)?;
    let written = evenkeel_types::quantity::canonicalize(text).map_err(failed)?;
    Ok(Value::opaque(QuantityValue { quantity, written: Some(written.into()) }))
}

fn of<'v>(values: &'v [Value<'_>]) -> Result<&'v Quantity, Error> {
    Ok(&receiver::<QuantityValue>(values)?.quantity)
}

fn order(values: &[Value<'_>]) -> Result<Ordering, Error> {
    Ok(of(values)?.cmp(&operand::<QuantityValue>(values)?.quantity))
}

fn number(order: Ordering) -> i64 {
    order as i64
}

fn computed<'a>(
    values: &[Value<'a>],
    change: fn(&mut Quantity, &Quantity),
) -> Result<Value<'a>, Error> {
    let mut quantity = of(values)?.clone();
    match values.get(1) {
        Some(Value::Int(int)) => {
            change(&mut quantity, &Quantity::new(*int, Format::DecimalExponent));
        }
        _ => change(&mut quantity, &operand::<QuantityValue>(values)?.quantity),
    }
    Ok(Value::opaque(QuantityValue { quantity, written: None }))
}
