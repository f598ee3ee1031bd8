package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// sampled are the kinds whose samples are kept: together they have every type of field.
var sampled = []string{
	"Pod", "ConfigMap", "Secret", "Deployment", "Service", "CustomResourceDefinition", "Lease", "SubjectAccessReview",
	"ControllerRevision", "HorizontalPodAutoscaler", "TokenRequest", "Eviction", "Binding", "Scale",
}

// samples prints objects with every field set, each twice: as Go writes it in JSON and in protobuf.
func samples(scheme *runtime.Scheme, all bool) {
	encoder := protobuf.NewSerializer(scheme, scheme)
	kinds := []schema.GroupVersionKind{}
	for kind, goType := range scheme.AllKnownTypes() {
		wanted := slices.Contains(sampled, kind.Kind) || all && !strings.HasSuffix(kind.Kind, "Options") &&
			kind.Kind != "WatchEvent" && goType.PkgPath() != reflect.TypeFor[metav1.DeleteOptions]().PkgPath()
		if wanted && !strings.HasPrefix(kind.Version, "__") && !strings.HasSuffix(kind.Kind, "List") {
			kinds = append(kinds, kind)
		}
	}
	kinds = append(kinds, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DeleteOptions"})
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	for _, kind := range kinds {
		object, err := scheme.New(kind)
		if err != nil {
			fail("%v", err)
		}
		fill := filler{within: map[reflect.Type]int{}}
		fill.value(reflect.ValueOf(object).Elem())
		object.GetObjectKind().SetGroupVersionKind(kind)
		text, err := json.Marshal(object)
		if err != nil {
			fail("%s: %v", kind, err)
		}
		var binary strings.Builder
		if err := encoder.Encode(object, &binary); err != nil {
			fail("%s: %v", kind, err)
		}
		fmt.Println(base64.StdEncoding.EncodeToString([]byte(binary.String())), string(text))
	}
}

// filler sets every field to something that differs from its neighbours.
type filler struct {
	count  int64
	within map[reflect.Type]int
}

func (f *filler) value(value reflect.Value) {
	f.count++
	switch special := value.Addr().Interface().(type) {
	case *metav1.Time:
		*special = metav1.NewTime(time.Unix(1_700_000_000+f.count, 0).UTC())
		return
	case *metav1.MicroTime:
		*special = metav1.NewMicroTime(time.Unix(1_700_000_000+f.count, f.count*1000).UTC())
		return
	case *resource.Quantity:
		*special = resource.MustParse(fmt.Sprintf("%dm", f.count*1000+1))
		return
	case *intstr.IntOrString:
		*special = intstr.FromInt32(int32(f.count))
		if f.count%2 == 0 {
			*special = intstr.FromString(fmt.Sprintf("%d%%", f.count))
		}
		return
	case *runtime.RawExtension:
		special.Raw = fmt.Appendf(nil, `{"a":[%d,{"b":null}]}`, f.count)
		return
	case *metav1.FieldsV1:
		special.Raw = []byte(`{"f:metadata":{}}`)
		return
	case *apiextensionsv1.JSON:
		special.Raw = fmt.Appendf(nil, `[%d]`, f.count)
		return
	case *apiextensionsv1.JSONSchemaPropsOrBool:
		special.Allows = true
		if f.count%2 == 0 {
			special.Schema = &apiextensionsv1.JSONSchemaProps{Type: "string"}
		}
		return
	case *apiextensionsv1.JSONSchemaPropsOrArray:
		special.JSONSchemas = []apiextensionsv1.JSONSchemaProps{{Type: "string"}, {Type: "object"}}
		if f.count%2 == 0 {
			special.Schema, special.JSONSchemas = &special.JSONSchemas[0], nil
		}
		return
	case *apiextensionsv1.JSONSchemaPropsOrStringArray:
		special.Property = []string{"a", "b"}
		return
	case *metav1.TypeMeta:
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(fmt.Sprintf("text-%d", f.count))
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32:
		value.SetInt(-f.count)
	case reflect.Int64:
		value.SetInt(f.count << 33)
	case reflect.Float64:
		value.SetFloat(float64(f.count) + 0.5)
	case reflect.Pointer:
		target := value.Type().Elem()
		if f.within[target] > 0 {
			return
		}
		value.Set(reflect.New(target))
		// Every third pointer to a plain value points to an empty one, which must not get lost.
		if f.count%3 != 0 || target.Kind() == reflect.Struct {
			f.value(value.Elem())
		}
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes(fmt.Appendf(nil, "bytes-%d\xff", f.count))
			return
		}
		if f.within[value.Type().Elem()] > 0 {
			return
		}
		value.Set(reflect.MakeSlice(value.Type(), 2, 2))
		f.value(value.Index(0)) // the second stays empty
	case reflect.Map:
		if f.within[value.Type().Elem()] > 0 {
			return
		}
		value.Set(reflect.MakeMap(value.Type()))
		element := reflect.New(value.Type().Elem()).Elem()
		f.value(element)
		value.SetMapIndex(reflect.ValueOf(fmt.Sprintf("key-%d", f.count)).Convert(value.Type().Key()), element)
	case reflect.Struct:
		f.within[value.Type()]++
		for index := range value.NumField() {
			if value.Type().Field(index).IsExported() {
				f.value(value.Field(index))
			}
		}
		f.within[value.Type()]--
	default:
		fail("no way to fill %s", value.Type())
	}
}
