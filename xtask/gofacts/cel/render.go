package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
)

func quote(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	must(encoder.Encode(text))
	return strings.NewReplacer("\u2028", `\u2028`, "\u2029", `\u2029`).Replace(strings.TrimSuffix(out.String(), "\n"))
}

// double prints the shortest form with an exponent, as Rust's {:e} does.
func double(value float64) string {
	switch {
	case math.IsNaN(value):
		return "NaN"
	case math.IsInf(value, 1):
		return "inf"
	case math.IsInf(value, -1):
		return "-inf"
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(value, 'e', -1, 64), "e")
	number, err := strconv.Atoi(exponent)
	must(err)
	return mantissa + "e" + strconv.Itoa(number)
}

// render prints a value; maps are sorted by the text of their entries.
func render(value ref.Val) string {
	switch v := value.(type) {
	case types.Bool:
		return strconv.FormatBool(bool(v))
	case types.Int:
		return strconv.FormatInt(int64(v), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10) + "u"
	case types.Double:
		return double(float64(v))
	case types.String:
		return quote(string(v))
	case types.Bytes:
		return "bytes(" + hex.EncodeToString(v) + ")"
	case types.Null:
		return "null"
	case types.Duration:
		return fmt.Sprintf("duration(%d)", v.Nanoseconds())
	case types.Timestamp:
		return "timestamp(" + v.Time.Format(time.RFC3339Nano) + ")"
	case *types.Optional:
		if !v.HasValue() {
			return "optional.none()"
		}
		return "optional.of(" + render(v.GetValue()) + ")"
	case *types.Type:
		return "type(" + v.String() + ")"
	case apiservercel.Quantity:
		return "quantity(" + v.Quantity.String() + ")"
	case *apiservercel.Quantity:
		return "quantity(" + v.Quantity.String() + ")"
	case apiservercel.URL:
		return "url(" + quote(v.URL.String()) + ")"
	case apiservercel.IP:
		return "ip(" + v.Addr.String() + ")"
	case apiservercel.CIDR:
		return "cidr(" + v.Prefix.String() + ")"
	case apiservercel.Semver:
		return "semver(" + v.Version.String() + ")"
	case apiservercel.Format:
		return "format(" + v.Name + ")"
	case *mutation.JSONPatchVal:
		parts := []string{}
		for _, field := range []struct{ name, text string }{{"op", v.Op}, {"from", v.From}, {"path", v.Path}} {
			if field.text != "" {
				parts = append(parts, field.name+": "+quote(field.text))
			}
		}
		if v.Val != nil {
			parts = append(parts, "value: "+render(v.Val))
		}
		return "JSONPatch{" + strings.Join(parts, ", ") + "}"
	case traits.Mapper:
		var entries []string
		for iterator := v.Iterator(); iterator.HasNext() == types.True; {
			key := iterator.Next()
			entries = append(entries, render(key)+": "+render(v.Get(key)))
		}
		sort.Strings(entries)
		return "{" + strings.Join(entries, ", ") + "}"
	case traits.Lister:
		var items []string
		for iterator := v.Iterator(); iterator.HasNext() == types.True; {
			items = append(items, render(iterator.Next()))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return "<" + value.Type().TypeName() + ">"
}

// authorizerOf makes an authorizer whose reason lists the attributes of the check. It allows users
// whose name is in "allow", returns an error for the verb "fail", and has no opinion on the rest.
func authorizerOf(options map[string]any) ref.Val {
	allowed := fmt.Sprint(options["allow"])
	decide := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		var parts []string
		add := func(name, text string) {
			if text != "" {
				parts = append(parts, name+"="+text)
			}
		}
		add("user", a.GetUser().GetName())
		add("groups", strings.Join(a.GetUser().GetGroups(), ","))
		add("verb", a.GetVerb())
		add("path", a.GetPath())
		add("group", a.GetAPIGroup())
		add("resource", a.GetResource())
		add("subresource", a.GetSubresource())
		add("namespace", a.GetNamespace())
		add("name", a.GetName())
		if requirements, err := a.GetFieldSelector(); err != nil {
			add("fieldError", err.Error())
		} else {
			for _, requirement := range requirements {
				add("field", requirement.Field+string(requirement.Operator)+requirement.Value)
			}
		}
		if requirements, err := a.GetLabelSelector(); err != nil {
			add("labelError", err.Error())
		} else {
			for _, requirement := range requirements {
				add("label", requirement.String())
			}
		}
		reason := strings.Join(parts, " ")
		if a.GetVerb() == "fail" {
			return authorizer.DecisionNoOpinion, reason, errors.New("authorizer failed")
		}
		if a.GetUser().GetName() == allowed {
			return authorizer.DecisionAllow, reason, nil
		}
		return authorizer.DecisionNoOpinion, reason, nil
	})
	return library.NewAuthorizerVal(&user.DefaultInfo{Name: fmt.Sprint(options["user"])}, decide)
}
