// Reads what Posthouse wrote with the classes that .NET programs use, and writes what Posthouse is to
// read. Each line of standard input is a command with base64 arguments; each answer is one line.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Runtime.Serialization;
using System.Runtime.Serialization.Formatters.Binary;
using System.ServiceModel.Channels;
using System.Text;
using System.Xml;
using System.Xml.Serialization;

public class HeaderInfo { public string Key; public string Value; }

public class Order
{
    [XmlAttribute] public int No;
    public string Customer;
    public DateTime? Paid;
    [XmlElement] public List<string> Tag;
    public decimal Total;
}

[Serializable]
public class Parcel
{
    public int Id;
    public string Name { get; set; }
    public decimal Price;
    public DateTime When;
    public Guid Key;
    public TimeSpan Window;
    public List<int> Numbers = new List<int>();
    public Dictionary<string, double> Rates = new Dictionary<string, double>();
    public Parcel Next;
}

[DataContract(Namespace = "http://acme.example/")]
public class Note
{
    [DataMember(Order = 1)] public int Number;
    [DataMember(Order = 2)] public string Text;
}

public static class Reader
{
    static readonly Dictionary<string, Type> Types = new Dictionary<string, Type> {
        {"string", typeof(string)}, {"int", typeof(int)}, {"long", typeof(long)}, {"boolean", typeof(bool)},
        {"short", typeof(short)}, {"byte", typeof(sbyte)}, {"unsignedByte", typeof(byte)},
        {"unsignedShort", typeof(ushort)}, {"unsignedInt", typeof(uint)}, {"unsignedLong", typeof(ulong)},
        {"double", typeof(double)}, {"float", typeof(float)}, {"decimal", typeof(decimal)},
        {"dateTime", typeof(DateTime)}, {"guid", typeof(Guid)}, {"base64Binary", typeof(byte[])},
        {"char", typeof(char)}, {"ArrayOfInt", typeof(int[])}, {"ArrayOfString", typeof(string[])},
        {"Order", typeof(Order)}, {"headers", typeof(List<HeaderInfo>)},
    };

    public static void Main()
    {
        string line;
        while ((line = Console.In.ReadLine()) != null)
        {
            var words = line.Split(' ');
            var data = words.Length > 2 ? Convert.FromBase64String(words[2]) : new byte[0];
            Console.Out.WriteLine(Answer(words[0], words[1], data));
            Console.Out.Flush();
        }
    }

    static string Answer(string command, string name, byte[] data)
    {
        switch (command)
        {
            case "xml": return Shown(ReadXml(Types[name], data));
            case "object": return Shown(new BinaryFormatter().Deserialize(new MemoryStream(data)));
            case "write": return Convert.ToBase64String(Written(name));
            case "text": return Envelope(new TextMessageEncodingBindingElement(), data);
            case "contract": return Contract(data);
            case "envelope": return Convert.ToBase64String(BinaryEnvelope());
            case "binary": return Envelope(new BinaryMessageEncodingBindingElement(), data);
        }
        return "unknown";
    }

    // As XmlMessageFormatter does: no settings that would change the text.
    static object ReadXml(Type type, byte[] data)
    {
        var reader = new XmlTextReader(new MemoryStream(data)) {
            WhitespaceHandling = WhitespaceHandling.Significant, DtdProcessing = DtdProcessing.Prohibit,
        };
        var list = type == typeof(List<HeaderInfo>);
        var serializer = list ? new XmlSerializer(type, new XmlRootAttribute("ArrayOfHeaderInfo"))
                              : new XmlSerializer(type);
        return serializer.Deserialize(reader);
    }

    static string Envelope(MessageEncodingBindingElement element, byte[] data)
    {
        var encoder = element.CreateMessageEncoderFactory().Encoder;
        var message = encoder.ReadMessage(new MemoryStream(data), 65536);
        var text = new StringBuilder();
        using (var writer = XmlDictionaryWriter.CreateDictionaryWriter(
            XmlWriter.Create(text, new XmlWriterSettings { OmitXmlDeclaration = true })))
        {
            message.WriteMessage(writer);
        }
        return Encoded(message.Headers.Action) + " " + Encoded(text.ToString());
    }

    static string Contract(byte[] data)
    {
        var encoder = new TextMessageEncodingBindingElement().CreateMessageEncoderFactory().Encoder;
        var note = encoder.ReadMessage(new MemoryStream(data), 65536).GetBody<Note>();
        return note.Number + " " + Shown(note.Text);
    }

    static byte[] BinaryEnvelope()
    {
        var stream = new MemoryStream();
        var version = MessageVersion.Soap12WSAddressing10;
        var message = Message.CreateMessage(version, "urn:note", new Note { Number = 7, Text = "ü & <b>" });
        new BinaryMessageEncodingBindingElement().CreateMessageEncoderFactory().Encoder
            .WriteMessage(message, stream);
        return stream.ToArray();
    }

    static byte[] Written(string name)
    {
        var stream = new MemoryStream();
        var first = new Parcel {
            Id = 1, Name = "Ä", Price = 12.50m, Window = TimeSpan.FromMinutes(90),
            When = new DateTime(2024, 2, 29, 12, 0, 0, DateTimeKind.Utc),
            Key = new Guid("00112233-4455-6677-8899-aabbccddeeff"),
        };
        first.Numbers.AddRange(new[] { 3, 1, 2 });
        first.Rates["a"] = 0.5;
        first.Next = new Parcel { Id = 2, Next = first };
        object value = name == "parcel" ? (object)first
            : name == "array" ? (object)new object[] { 1, "two", null, 4.5m, new[] { 1, 2 } }
            : (object)new InvalidOperationException("failed", new FormatException("inner"));
        new BinaryFormatter().Serialize(stream, value);
        return stream.ToArray();
    }

    static string Encoded(string text)
    {
        return text == null ? "-" : "b" + Convert.ToBase64String(Encoding.UTF8.GetBytes(text));
    }

    // A value on one line: texts are base64 in UTF-8 with a b before them.
    static string Shown(object value)
    {
        if (value == null) return "null";
        if (value is string) return Encoded((string)value);
        if (value is byte[]) return "bytes:" + Convert.ToBase64String((byte[])value);
        if (value is char) return "char:" + (int)(char)value;
        if (value is DateTime) return ((DateTime)value).ToString("o") ;
        if (value is float) return ((float)value).ToString("R", CultureInfo.InvariantCulture);
        if (value is double) return ((double)value).ToString("R", CultureInfo.InvariantCulture);
        var order = value as Order;
        if (order != null)
            return order.No + " " + Shown(order.Customer) + " " + Shown(order.Paid) + " " + Shown(order.Tag)
                + " " + Shown(order.Total);
        var headers = value as List<HeaderInfo>;
        if (headers != null)
            return String.Join(",", headers.ConvertAll(one => Shown(one.Key) + "=" + Shown(one.Value)));
        var dictionary = value as IDictionary;
        if (dictionary != null)
        {
            var pairs = new List<string>();
            foreach (DictionaryEntry one in dictionary) pairs.Add(Shown(one.Key) + "=" + Shown(one.Value));
            return "{" + String.Join(",", pairs) + "}";
        }
        var list = value as IEnumerable;
        if (list != null)
        {
            var items = new List<string>();
            foreach (var one in list) items.Add(Shown(one));
            return "[" + String.Join(",", items) + "]";
        }
        return Convert.ToString(value, CultureInfo.InvariantCulture);
    }
}
