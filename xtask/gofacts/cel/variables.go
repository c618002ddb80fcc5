package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// A declared type with the limits of its elements; -1 is no limit.
type declared struct {
	cel    *cel.Type
	max    int64
	key    *declared
	elem   *declared
	schema *apiservercel.DeclType
	from   *schema.Structural
}

// step follows one element of a path of the cost estimator.
func (d *declared) step(name string) *declared {
	if d.schema != nil {
		next := d.schema.ElemType
		switch name {
		case "@items", "@values":
		case "@keys":
			next = d.schema.KeyType
		default:
			next = nil
			if field := d.schema.Fields[name]; field != nil {
				next = field.Type
			}
		}
		if next == nil {
			return nil
		}
		return &declared{schema: next, max: next.MaxElements}
	}
	switch name {
	case "@items", "@values":
		return d.elem
	case "@keys":
		return d.key
	}
	return nil
}

type variables struct {
	base     *cel.Env
	tracking *cel.Env // remembers the macros that it expands
	extended *cel.Env
	declared map[string]*declared
	values   map[string]any
	options  []cel.EnvOption
	roots    []*apiservercel.DeclType
}

func newVariables(base, tracking *cel.Env) *variables {
	return &variables{base: base, tracking: tracking, declared: map[string]*declared{}, values: map[string]any{}}
}

func (v *variables) environment() *cel.Env {
	if v.extended != nil {
		return v.extended
	}
	options := v.options
	if len(v.roots) > 0 {
		provider := apiservercel.NewDeclTypeProvider(v.roots...)
		provider.SetRecognizeKeywordAsFieldName(true)
		provided, err := provider.EnvOptions(v.base.CELTypeProvider())
		if err != nil {
			panic(err)
		}
		options = append(options, provided...)
	}
	env, err := v.base.Extend(options...)
	if err != nil {
		panic(err)
	}
	v.extended = env
	return env
}

// declare adds the variable of a line "NAME TYPE JSON".
func (v *variables) declare(line string) {
	name, rest, _ := strings.Cut(line, " ")
	var typ *declared
	var value any
	if strings.HasPrefix(rest, "{") {
		decoder := json.NewDecoder(strings.NewReader(rest))
		var props apiextensionsv1.JSONSchemaProps
		must(decoder.Decode(&props))
		rest = rest[decoder.InputOffset():]
		var internal apiextensions.JSONSchemaProps
		must(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil))
		structural, err := schema.NewStructural(&internal)
		must(err)
		root := model.SchemaDeclType(structural, structural.XEmbeddedResource).MaybeAssignTypeName("selfType")
		v.roots = append(v.roots, root)
		typ = &declared{cel: root.CelType(), max: root.MaxElements, schema: root, from: structural}
		value = schemacel.UnstructuredToVal(decode(rest), structural)
	} else {
		typ, rest = parseType(rest)
		value = convert(typ.cel, decode(rest))
	}
	v.declared[name] = typ
	v.values[name] = value
	v.options = append(v.options, cel.Variable(name, typ.cel))
	v.extended = nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func decode(text string) any {
	var value any
	must(utiljson.Unmarshal([]byte(text), &value))
	return value
}

// parseType parses "list(map(string, int)[5])" and returns the rest of the text.
func parseType(text string) (*declared, string) {
	text = strings.TrimLeft(text, " ")
	end := strings.IndexAny(text, "( ,)[")
	if end < 0 {
		end = len(text)
	}
	name, rest := text[:end], text[end:]
	result := &declared{max: -1}
	switch name {
	case "list":
		result.elem, rest = parseType(rest[1:])
		rest = rest[1:]
		result.cel = cel.ListType(result.elem.cel)
	case "map":
		result.key, rest = parseType(rest[1:])
		result.elem, rest = parseType(rest[1:])
		rest = rest[1:]
		result.cel = cel.MapType(result.key.cel, result.elem.cel)
	case "optional":
		result.elem, rest = parseType(rest[1:])
		rest = rest[1:]
		result.cel = cel.OptionalType(result.elem.cel)
	case "authorizer":
		result.cel = library.AuthorizerType
	default:
		result.cel = map[string]*cel.Type{
			"bool": cel.BoolType, "int": cel.IntType, "uint": cel.UintType, "double": cel.DoubleType,
			"string": cel.StringType, "bytes": cel.BytesType, "null": cel.NullType, "dyn": cel.DynType,
			"timestamp": cel.TimestampType, "duration": cel.DurationType,
		}[name]
		if result.cel == nil {
			panic("unknown type " + name)
		}
	}
	if strings.HasPrefix(rest, "[") {
		limit, after, _ := strings.Cut(rest[1:], "]")
		max, err := strconv.ParseInt(limit, 10, 64)
		must(err)
		result.max, rest = max, after
	}
	return result, rest
}

// convert makes a CEL value of a decoded JSON value.
func convert(typ *cel.Type, value any) ref.Val {
	switch typ.Kind() {
	case types.UintKind:
		return types.Uint(value.(int64))
	case types.DoubleKind:
		if number, ok := value.(int64); ok {
			return types.Double(number)
		}
	case types.BytesKind:
		return types.Bytes(value.(string))
	case types.TimestampKind:
		at, err := time.Parse(time.RFC3339Nano, value.(string))
		must(err)
		return types.Timestamp{Time: at}
	case types.DurationKind:
		length, err := time.ParseDuration(value.(string))
		must(err)
		return types.Duration{Duration: length}
	case types.ListKind:
		items := []ref.Val{}
		for _, item := range value.([]any) {
			items = append(items, convert(typ.Parameters()[0], item))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, items)
	case types.MapKind:
		entries := map[ref.Val]ref.Val{}
		for key, item := range value.(map[string]any) {
			var native any = key
			if typ.Parameters()[0].Kind() == types.IntKind {
				number, err := strconv.ParseInt(key, 10, 64)
				must(err)
				native = number
			}
			entries[types.DefaultTypeAdapter.NativeToValue(native)] = convert(typ.Parameters()[1], item)
		}
		return types.NewRefValMap(types.DefaultTypeAdapter, entries)
	case types.OpaqueKind:
		if value == nil {
			return types.OptionalNone
		}
		return types.OptionalOf(convert(typ.Parameters()[0], value))
	case types.StructKind:
		return authorizerOf(value.(map[string]any))
	}
	result := types.DefaultTypeAdapter.NativeToValue(value)
	if types.IsError(result) {
		panic(fmt.Sprint(result))
	}
	return result
}
